#!/usr/bin/env bash
# Installs what building and testing need and is not there yet: Debian packages (packages.txt) and a Python
# environment in .venv (requirements.txt, the package preheat). Takes a second when nothing is missing.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

missing_packages() {
  local wanted installed
  wanted=$(grep -vE '^[[:space:]]*(#|$)' "$PREHEAT_ROOT/deploy/packages.txt" | sort -u)
  # dpkg-query complains about unknown names and answers for the others: those are the missing ones.
  # shellcheck disable=SC2086
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p' | sort -u || true)
  comm -23 <(printf '%s\n' "$wanted") <(printf '%s\n' "$installed")
}

install_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    die "this is no Debian: apt-get is not there" "use Debian 12, or install the libraries that deploy/packages.txt names"
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  if [ ${#missing[@]} = 0 ]; then
    say "Debian packages: all there"
    return
  fi
  say "Debian packages: installing ${missing[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
  as_root "${apt[@]}" update
  as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}

# The first python3 that is new enough.
find_python() {
  local candidate
  for candidate in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  die "no Python 3.11 or newer found" "install python3 (Debian 12 has 3.11)"
}

# The version (as its package calls it) of a torch 2.11 which PYTHON can import, or nothing.
torch_of() {
  "$1" -c 'import importlib.metadata as m, torch; v = m.version("torch"); print(v if v.startswith("2.11.") else "")' 2>/dev/null || true
}

make_venv() {
  local python=$1
  if [ -n "$(torch_of "$python")" ]; then
    say "Python: $python has torch $(torch_of "$python"); .venv uses it"
    "$python" -m venv --system-site-packages "$PREHEAT_VENV"
  else
    say "Python: making .venv with $python"
    "$python" -m venv "$PREHEAT_VENV"
  fi
}

# uv unpacks side by side and links from its cache, so that a second clone is ready in seconds. It knows nothing of pip's
# settings, so the two that matter are handed on; where it fails, pip does the work.
install_by_uv() {
  local python="$PREHEAT_VENV/bin/python" index
  "$python" -m pip install --quiet --disable-pip-version-check uv || return
  index=${PIP_INDEX_URL:-$("$python" -m pip config get global.index-url 2>/dev/null || true)}
  env UV_SYSTEM_CERTS=1 ${PIP_CERT:+SSL_CERT_FILE="$PIP_CERT"} ${index:+UV_DEFAULT_INDEX="$index"} \
    "$PREHEAT_VENV/bin/uv" pip install --quiet --python "$python" -r "$1"
}

install_by_pip() {
  "$PREHEAT_VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --retries 5 -r "$1"
}

install_requirements() {
  local wanted="$PREHEAT_VENV/preheat-requirements.txt" own_torch
  say "Python: installing requirements into .venv (torch alone is about 5 GB; a minute or more)"
  # A torch that is found already stays: it must neither be replaced nor installed once more. uv does not see one that
  # stands outside .venv.
  own_torch=$(torch_of "$PREHEAT_VENV/bin/python")
  if [ -n "$own_torch" ]; then
    sed "s/^torch==.*/torch==$own_torch/" "$PREHEAT_ROOT/deploy/requirements.txt" >"$wanted"
    install_by_pip "$wanted"
  else
    cp "$PREHEAT_ROOT/deploy/requirements.txt" "$wanted"
    install_by_uv "$wanted" || install_by_pip "$wanted"
  fi
}

install_python() {
  local stamp="$PREHEAT_VENV/preheat-installed" want
  # The path is part of it: programs of a virtual environment do not survive a move.
  want=$(cat "$PREHEAT_ROOT/deploy/requirements.txt" "$PREHEAT_ROOT/client/python/pyproject.toml" "${BASH_SOURCE[0]}" <(echo "$PREHEAT_VENV") | sha256sum)
  if [ -x "$PREHEAT_VENV/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
    say "Python: .venv is up to date"
    return
  fi
  if ! "$PREHEAT_VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$PREHEAT_VENV"
    make_venv "$(find_python)"
  fi
  install_requirements
  say "Python: installing the package preheat (as links into client/python)"
  "$PREHEAT_VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e "$PREHEAT_ROOT/client/python"
  printf '%s\n' "$want" >"$stamp"
}

install_packages
install_python
