# Sourced by the scripts of this folder: where the tree is, how to speak, how to become root.
# shellcheck shell=bash

PREHEAT_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
PREHEAT_VENV="$PREHEAT_ROOT/.venv"
PREHEAT_BUILD="$PREHEAT_ROOT/build/release"
export PREHEAT_ROOT PREHEAT_VENV PREHEAT_BUILD

# Python keeps what it compiles, beside the build: without that each process compiles torch's sources again, for seconds.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="${PYTHONPYCACHEPREFIX:-$PREHEAT_ROOT/build/pycache}"

say() { printf '[preheat] %s\n' "$*"; }

# die MESSAGE FIX: says what is wrong and what to do about it, and leaves.
die() {
  printf '[preheat] error: %s\n' "$1" >&2
  [ $# -lt 2 ] || printf '[preheat]   fix: %s\n' "$2" >&2
  exit 1
}

# as_root COMMAND...: as it is for root, otherwise by sudo, which may not ask (there is no terminal in CI).
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    if [ -t 0 ]; then sudo "$@"; else sudo -n "$@"; fi
  else
    die "'$1' needs root, and there is no sudo" "run as root, or install the packages of deploy/packages.txt first"
  fi
}
