#!/usr/bin/env bash
# One wheel of the Python client, with the runtime, oneDNN and what they load from Debian inside: a client needs no
# compiler and no package of the system. For Python 3.11 and newer and any torch: nothing in it links torch or Python.
#   deploy/wheel.sh [FOLDER]         default build/wheel
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folder=${1:-$PREHEAT_ROOT/build/wheel}
libraries=${PREHEAT_LIBRARIES:-$PREHEAT_BUILD/lib}
for name in runtime onednn; do
  [ -e "$libraries/libpreheat_$name.so" ] || die "libpreheat_$name.so is not in $libraries" "deploy/build.sh"
done

# Libraries that FILE loads from Debian: not the C and C++ runtimes, which manylinux promises.
debian_libraries() {
  ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
    grep -vE '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s))\.so' || true
}

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/client" "$folder"
cp -r "$PREHEAT_ROOT/proto" "$stage/"
cp -r "$PREHEAT_ROOT/client/python" "$stage/client/"
find "$stage" -name __pycache__ -prune -exec rm -rf {} +
lib=$stage/client/python/preheat/lib
mkdir -p "$lib"
for name in runtime onednn; do
  install -m 755 "$libraries/libpreheat_$name.so" "$lib/"
  debian_libraries "$libraries/libpreheat_$name.so"
done | sort -u | while read -r library; do
  install -m 644 "$(readlink -f "$library")" "$lib/$(basename "$library")"
done
strip --strip-unneeded "$lib"/*.so*
floor=$("$PREHEAT_ROOT/deploy/check_floor.py" "$lib"/*.so*)

cd "$stage/client/python"
rm -rf build ./*.egg-info
"$PREHEAT_VENV/bin/python" setup.py -q bdist_wheel --plat-name manylinux_2_34_x86_64 --dist-dir "$folder" >"$stage/log" 2>&1 ||
  { cat "$stage/log" >&2; die "setuptools made no wheel" "its words are above"; }
wheel=$(ls -t "$folder"/preheat-*.whl | head -n 1)
say "$wheel: $(du -k "$wheel" | cut -f1) KiB, needs $floor"
