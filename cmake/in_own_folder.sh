#!/bin/sh
# Runs a test program with a temporary folder of its own (testing::TempDir()), so that cases may run side by side.
TEST_TMPDIR=$(mktemp -d) || exit 1
export TEST_TMPDIR
trap 'rm -rf "$TEST_TMPDIR"' EXIT
"$@"
