#!/usr/bin/env bash
# Installs what is missing, builds, runs every test. One runner counts them all: pytest, which runs ctest
# (tests/test_ctest.py), so that its last line says how many. Arguments go to pytest: deploy/test.sh -k cache
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$PREHEAT_ROOT/deploy/install_deps.sh"
"$PREHEAT_ROOT/deploy/build.sh"

cd "$PREHEAT_ROOT"
say "testing"
exec "$PREHEAT_VENV/bin/python" -m pytest tests "$@" </dev/null
