#!/usr/bin/env bash
# Configures and builds a preset into build/PRESET.
#   deploy/build.sh [--preset release|debug|asan|tsan] [TARGET...]      no target: everything
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=release
if [ "${1:-}" = --preset ]; then
  preset=${2:?--preset needs a name}
  shift 2
fi

# A gRPC or LibTorch source takes up to 1.5 GB to compile, and ninja counts cores only.
jobs=$(awk -v cores="$(nproc)" '/MemAvailable/ {m = int($2 / 1500000); if (m < 1) m = 1; print m < cores ? m : cores}' /proc/meminfo)

cd "$PREHEAT_ROOT"
mkdir -p build
say "configuring preset $preset"
if ! cmake --preset "$preset" >"build/configure-$preset.log" 2>&1; then
  tail -n 40 "build/configure-$preset.log" >&2
  die "cmake failed (above; all of it in build/configure-$preset.log)" "deploy/install_deps.sh installs what cmake misses"
fi
say "building ${*:-everything}, $jobs at a time"
cmake --build "build/$preset" --parallel "$jobs" ${1:+--target "$@"}
