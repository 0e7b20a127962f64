#!/usr/bin/env bash
# Collects what another machine needs to run what was built here: our programs and shared libraries, stripped, the
# Debian libraries they load, the Python package, and env.sh, which sets the paths.
#   deploy/bundle.sh [FOLDER]         default build/bundle; FOLDER.tar.gz is written beside it
# gpu/run.sh in it checks and times a suite of workloads on a machine with a GPU; PREHEAT_BUNDLE_TESTS=1 adds the
# conformance programs for it.
# The other machine brings glibc, libstdc++ and libgcc (as new as Debian 12's), and torch 2.11 for workers and eager.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

bundle=${1:-$PREHEAT_ROOT/build/bundle}
[ -x "$PREHEAT_BUILD/bin/compilectl" ] || die "nothing is built in $PREHEAT_BUILD" "deploy/build.sh"
[ -d "$PREHEAT_ROOT/client/python/preheat/_proto" ] || die "Python's messages are not generated" "deploy/build.sh preheat_python_protos"

# Libraries that FILE loads from Debian: not the C and C++ runtimes, nothing of torch's or of the build.
debian_libraries() {
  ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
    grep -vE '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s))\.so' |
    grep -vE "^$PREHEAT_ROOT/|/site-packages/" || true
}

rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib" "$bundle/python"
ours=()
for program in preheatd preheat-worker preheat-nvrtc compilectl preheat-load ${PREHEAT_BUNDLE_TESTS:+conformance_test}; do
  [ ! -x "$PREHEAT_BUILD/bin/$program" ] || ours+=("$PREHEAT_BUILD/bin/$program")
done
for library in "$PREHEAT_BUILD"/lib/libpreheat_*.so; do
  [ ! -e "$library" ] || ours+=("$library")
done

for file in "${ours[@]}"; do
  case $file in */bin/*) to=bin ;; *) to=lib ;; esac
  install -m 755 "$file" "$bundle/$to/"
  debian_libraries "$file"
done | sort -u | while read -r library; do
  # By the name that programs ask for, whatever file the link leads to.
  install -m 644 "$(readlink -f "$library")" "$bundle/lib/$(basename "$library")"
done
strip --strip-unneeded "$bundle"/bin/* "$bundle"/lib/*.so*

cp -r "$PREHEAT_ROOT/client/python/preheat" "$bundle/python/"
cp -r "$PREHEAT_ROOT/tests/gpu" "$bundle/gpu"
# By this torch finds backend="preheat".
info="$bundle/python/preheat-0.1.0.dist-info"
mkdir "$info"
printf 'Metadata-Version: 2.1\nName: preheat\nVersion: 0.1.0\n' >"$info/METADATA"
printf '[torch_dynamo_backends]\npreheat = preheat.backend:backend\n' >"$info/entry_points.txt"
find "$bundle/python" -name __pycache__ -prune -exec rm -rf {} +

cat >"$bundle/env.sh" <<'ENV'
# Source this: . env.sh; then preheatd, preheat-worker, compilectl and Python's `import preheat` are there.
preheat_bundle="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
preheat_torch="$(python3 -c 'import importlib.util as u, os; print(os.path.dirname(u.find_spec("torch").origin) + "/lib")' 2>/dev/null)"
# NVIDIA's libraries that come with torch: NVRTC for workers.
preheat_nvidia="$(printf '%s:' "${preheat_torch%/torch/lib}"/nvidia/*/lib)"
export PATH="$preheat_bundle/bin:$PATH"
export LD_LIBRARY_PATH="$preheat_bundle/lib${preheat_torch:+:$preheat_torch:${preheat_nvidia%:}}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PYTHONPATH="$preheat_bundle/python${PYTHONPATH:+:$PYTHONPATH}"
export PREHEAT_RUNTIME="$preheat_bundle/lib/libpreheat_runtime.so"
ENV

tar -C "$(dirname "$bundle")" -czf "$bundle.tar.gz" "$(basename "$bundle")"
say "$bundle: $(du -sm "$bundle" | cut -f1) MiB; $bundle.tar.gz: $(du -sm "$bundle.tar.gz" | cut -f1) MiB"
