#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: is what Preheat makes for it right, and how fast is it?
#
#   tests/gpu/run.sh [-b BUNDLE] SUITE [NAME...]
#
# BUNDLE: the folder or .tar.gz that deploy/bundle.sh made (without it: the one in which this script stands, else the
# checkout's build/bundle). SUITE: a file of workloads like shared/bench/suite.py; NAME: those to run, all without it.
# Starts preheatd with its workers, sends every workload through torch.compile(backend="preheat"), compares and times,
# and prints a table. python3 has torch 2.11, grpcio and protobuf; NVRTC, cuBLASLt and cuDNN come with torch.
# Variables: DTYPE (bfloat16), BACKENDS (preheat; preheat,inductor,inductor-ro times those too), SCALE (full),
# SEEDS (random programs against the evaluator, 0), SANITIZE=1 (compute-sanitizer on the conformance programs, where a
# bundle has them, and on small workloads, SANITIZE_SECONDS a tool), HITS=1 (from the warm service too), PROFILE=1
# (kernels that take longest), OUT (logs, here).
# Beside it: judges.py (the architectures and operators of a folder like shared/check), attention.py, errors.py, tuned.py,
# first_call.py, launch_cost.py; each says at its top what it wants.
set -u
bundle=
while getopts b: option; do
  case $option in b) bundle=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
if [ $# -lt 1 ]; then sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 2; fi
suite=$(realpath "$1") && shift || exit 2
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath "${OUT:-.}")
work=$(mktemp -d)
if [ -z "$bundle" ]; then
  if [ -e "$here/../env.sh" ]; then bundle=$here/..; else bundle=$here/../../build/bundle; fi
fi
if [ -f "$bundle" ]; then
  tar -xzf "$bundle" -C "$work" && bundle=$(dirname "$(find "$work" -maxdepth 2 -name env.sh | head -1)")
fi
# shellcheck disable=SC1091
. "$bundle/env.sh" || exit 1
export PREHEAT_CACHE_DIR=$work/cache PREHEAT_REQUIRED=1
failed=0

if { [ "${SEEDS:-0}" != 0 ] || [ "${SANITIZE:-0}" = 1 ]; } && [ -x "$bundle/bin/conformance_test" ]; then
  PREHEAT_TEST_TARGET=$(python3 -c 'import torch; print("cuda:sm_%d%d" % torch.cuda.get_device_capability())')
  export PREHEAT_TEST_TARGET
  echo "== random and chosen programs against the evaluator, $PREHEAT_TEST_TARGET"
  PREHEAT_FUZZ_SEEDS=${SEEDS:-0} conformance_test > "$out/conformance.log" 2>&1 || failed=1
  grep -E "FAILED|PASSED" "$out/conformance.log"
  if [ "${SANITIZE:-0}" = 1 ] && command -v compute-sanitizer > /dev/null; then
    for tool in memcheck racecheck initcheck; do
      echo "== compute-sanitizer $tool"
      PREHEAT_FUZZ_SEEDS=6 timeout "${SANITIZE_SECONDS:-600}" compute-sanitizer --tool $tool --error-exitcode 9 "$bundle/bin/conformance_test" \
        --gtest_filter='ScheduleShapes*:CompileGraph.*:GpuAttention.Joined*-*Convol*:*Filters*:*Gradients*' > "$out/$tool.log" 2>&1 || failed=1
      grep SUMMARY "$out/$tool.log"
    done
  fi
fi

port=${PORT:-$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')}
export PREHEAT_SERVER=localhost:$port
if ! compilectl server start --data-dir "$work/server" --port "$port" --http-port $((port + 1)) --workers 1 > "$out/server.log" 2>&1; then
  cat "$out/server.log"
  exit 1
fi
trap 'compilectl server stop --data-dir "$work/server" > /dev/null 2>&1; cp "$work"/server/*.log "$out" 2> /dev/null; rm -rf "$work"' EXIT

echo "== workloads, ${DTYPE:-bfloat16}"
python3 -X faulthandler "$here/run_suite.py" --suite "$suite" --dtype "${DTYPE:-bfloat16}" --scale "${SCALE:-full}" --backends "${BACKENDS:-preheat}" \
  ${HITS:+--hits} ${PROFILE:+--profile} ${KIND:+--kind "$KIND"} "$@" > "$out/suite.jsonl" 2> "$out/suite.err" || failed=1
python3 "$here/table.py" "$out/suite.jsonl"

if [ "${SANITIZE:-0}" = 1 ] && command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck initcheck; do
    echo "== compute-sanitizer $tool, small micro workloads"
    timeout "${SANITIZE_SECONDS:-600}" compute-sanitizer --tool $tool --target-processes all --error-exitcode 9 python3 "$here/run_suite.py" --suite "$suite" --scale small \
      --seconds 0.01 --kind micro > "$out/$tool-suite.jsonl" 2> "$out/$tool-suite.err" || failed=1
    grep SUMMARY "$out/$tool-suite.jsonl" "$out/$tool-suite.err"
  done
fi
exit $failed
