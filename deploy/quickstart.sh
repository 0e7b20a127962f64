#!/usr/bin/env bash
# From a clone to a served model: installs what is missing, builds, starts a server with the local CPU, warms
# deploy/examples/buckets.yaml, then runs one BERT twice from two fresh processes that share nothing but the server.
#   deploy/quickstart.sh [--keep]     --keep leaves the server running and says how to reach and stop it
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

keep=no
case "${1:-}" in
  '') ;;
  --keep) keep=yes ;;
  *) die "unknown argument '$1'" "deploy/quickstart.sh [--keep]" ;;
esac

examples="$PREHEAT_ROOT/deploy/examples"
work="$PREHEAT_ROOT/build/quickstart" # the server's data and the two caches, made anew at each run
data="$work/data"
compilectl="$PREHEAT_BUILD/bin/compilectl"
python="$PREHEAT_VENV/bin/python"
shape=(--dim batch=1 --dim seq=96) # in no bucket, so that the first process has something to compile

# field NAME...: that field of the JSON document on stdin.
field() {
  "$python" -c 'import functools, json, sys; print(functools.reduce(lambda d, k: d[k], sys.argv[1:], json.load(sys.stdin)))' "$@"
}

stop_server() { "$compilectl" server stop --data-dir "$data" >/dev/null 2>&1 || true; }

start_server() {
  [ ! -d "$data" ] || stop_server # one that --keep left
  rm -rf "$work"
  mkdir -p "$data"
  local ports=(--port 0 --http-port 0)
  [ "$keep" = no ] || ports=()
  trap stop_server EXIT
  "$compilectl" server start --data-dir "$data" "${ports[@]}" --workers 1
  PREHEAT_SERVER=$("$compilectl" --json server status --data-dir "$data" | field server)
  export PREHEAT_SERVER
}

compiles() { "$compilectl" --json stats | field requests compiled; }

# run_bert NAME: one fresh process with an empty cache of its own. Leaves its document in NAME.json and in
# NAME.compiles how many compiles the server did for it.
run_bert() {
  local before
  before=$(compiles)
  PREHEAT_CACHE_DIR="$work/cache-$1" "$compilectl" --json run "$examples/models/bert.pt2" "${shape[@]}" >"$work/$1.json"
  echo "$(($(compiles) - before))" >"$work/$1.compiles"
}

print_table() {
  "$python" - "$work" <<'PY'
import json, pathlib, sys

def row(name: str, title: str) -> list[str]:
    run = json.loads((work / f"{name}.json").read_text())
    ours, eager = run["ms"]["p50"], run["eager_ms"]
    speed = f"{eager / ours:.2f}x" if ours and eager else "unknown"
    result = {"hit": "fetched", "compiled": "compiled"}.get(run["result"], run["result"])
    compiles = (work / f"{name}.compiles").read_text().strip()
    return [title, result, compiles, f"{run['seconds']:.2f}", f"{ours:.2f}", f"{eager:.2f}" if eager else "unknown", speed]

work = pathlib.Path(sys.argv[1])
rows = [["BERT (small), 1 x 96", "result", "compiles", "seconds to ready", "ms a run", "ms eager", "speed against eager"],
        row("first", "first process"), row("second", "second process")]
widths = [max(map(len, column)) for column in zip(*rows)]
print()
for line in rows:
    print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
if rows[2][1:3] != ["fetched", "0"]:
    sys.exit("the second process was to fetch what the first had compiled, without a compile")
PY
}

"$PREHEAT_ROOT/deploy/install_deps.sh"
"$PREHEAT_ROOT/deploy/build.sh" product
say "model archives (random weights): $examples/models"
"$python" "$examples/make_models.py"
start_server
say "warming deploy/examples/buckets.yaml"
"$compilectl" warm --shapes "$examples/buckets.yaml"

say "running BERT from two fresh processes"
run_bert first
run_bert second
print_table

if [ "$keep" = yes ]; then
  trap - EXIT
  say "the server goes on: export PREHEAT_SERVER=$PREHEAT_SERVER; stop it with $compilectl server stop --data-dir $data"
fi
