#!/bin/sh
# On a machine with an NVIDIA GPU: is what Preheat makes for it right, and how fast is it?
#
#   tests/gpu/run.sh BUNDLE SUITE [NAME...]
#
# BUNDLE: a folder with bin/conformance_test, bin/compile_model and lib/libpreheat_runtime.so (and the libraries that they need, if this
# machine lacks them): the build folder serves. SUITE: a file of workloads like shared/bench/suite.py; NAME: those to
# run, all inference workloads without it. Python with torch comes from the PATH, NVRTC and cuBLASLt from CUDA or torch's packages.
# Variables: DTYPE (bfloat16), INDUCTOR=1 (times Inductor too), SEEDS (random programs, 60), OUT (for logs, the current folder).
set -u
if [ $# -lt 2 ]; then sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2; fi
bundle=$1 suite=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-.}
major=$(python3 -c 'import torch; print("%d%d" % torch.cuda.get_device_capability())') || exit 1
packages=$(python3 -c 'import os, torch; print(os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), "nvidia"))')
LD_LIBRARY_PATH=$(ls -d "$packages"/*/lib 2>/dev/null | paste -sd:):$bundle/lib:${LD_LIBRARY_PATH:-}
PREHEAT_RUNTIME=$bundle/lib/libpreheat_runtime.so PREHEAT_TEST_TARGET=cuda:sm_$major
export LD_LIBRARY_PATH PREHEAT_RUNTIME PREHEAT_TEST_TARGET
failed=0

echo "== random and chosen programs against the evaluator, cuda:sm_$major"
PREHEAT_FUZZ_SEEDS=${SEEDS:-60} "$bundle/bin/conformance_test" > "$out/conformance.log" 2>&1 || failed=1
grep -E "FAILED|PASSED" "$out/conformance.log"

if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck initcheck; do
    echo "== compute-sanitizer $tool"
    PREHEAT_FUZZ_SEEDS=12 compute-sanitizer --tool $tool --error-exitcode 9 "$bundle/bin/conformance_test" > "$out/$tool.log" 2>&1 || failed=1
    grep SUMMARY "$out/$tool.log"
  done
fi

echo "== workloads, ${DTYPE:-bfloat16}"
python3 "$here/run_suite.py" --suite "$suite" --tool "$bundle/bin/compile_model" --dtype "${DTYPE:-bfloat16}" ${INDUCTOR:+--inductor} "$@" \
  > "$out/suite.jsonl" 2> "$out/suite.err" || failed=1
python3 "$here/table.py" "$out/suite.jsonl"
exit $failed
