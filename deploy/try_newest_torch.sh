#!/usr/bin/env bash
# Tries the client with the newest torch that installs here, in a Python environment of its own: the wheel, a server of
# this build, a model's inference and training step against eager. Prints what was tried and ends with "works" or fails.
#   deploy/try_newest_torch.sh [FOLDER]     default build/newest_torch; PREHEAT_TORCH_SPEC="torch==2.12.*" asks for another
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folder=${1:-$PREHEAT_ROOT/build/newest_torch}
[ -x "$PREHEAT_BUILD/bin/preheatd" ] || die "nothing is built in $PREHEAT_BUILD" "deploy/build.sh"
mkdir -p "$folder"
python=$folder/venv/bin/python
if [ ! -x "$python" ]; then
  say "an environment in $folder/venv"
  python3 -m venv "$folder/venv"
fi
say "installing ${PREHEAT_TORCH_SPEC:-torch, the newest}; this is a large download"
# The build for CPUs where its index is given; the usual one otherwise.
"$python" -m pip install -q --upgrade ${PREHEAT_TORCH_INDEX:+--index-url "$PREHEAT_TORCH_INDEX"} "${PREHEAT_TORCH_SPEC:-torch}"
rm -f "$folder"/preheat-*.whl
"$PREHEAT_ROOT/deploy/wheel.sh" "$folder"
"$python" -m pip install -q --force-reinstall --no-deps "$folder"/preheat-*.whl
"$python" -m pip install -q numpy grpcio protobuf

data=$(mktemp -d)
address=$("$PREHEAT_BUILD/bin/compilectl" --json server start --data-dir "$data" --port 0 --http-port 0 --workers 1 |
  "$python" -c 'import json, sys; print(json.load(sys.stdin)["server"])')
trap '"$PREHEAT_BUILD/bin/compilectl" server stop --data-dir "$data" >/dev/null; rm -rf "$data"' EXIT
cd "$folder"
PREHEAT_SERVER=$address PREHEAT_REQUIRED=1 PREHEAT_CACHE_DIR=$data/cache "$python" "$PREHEAT_ROOT/deploy/try_torch.py"
