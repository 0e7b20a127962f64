#!/usr/bin/env bash
# Fails, naming file and line, where C++ differs from what .clang-format makes of it. --fix rewrites instead.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v clang-format >/dev/null || die "clang-format is not there" "deploy/install_deps.sh"
cd "$PREHEAT_ROOT"
mode=(--dry-run -Werror)
[ "${1:-}" != --fix ] || mode=(-i)
# Without git (an unpacked archive) the tree itself is the list.
if git rev-parse --git-dir >/dev/null 2>&1; then
  git ls-files -z '*.cc' '*.h'
else
  find . \( -name build -o -name .venv \) -prune -o \( -name '*.cc' -o -name '*.h' \) -print0
fi | xargs -0 --no-run-if-empty clang-format --style=file "${mode[@]}"
