#!/usr/bin/env bash
# Fuzzes each target for some seconds, 60 by default, on top of what earlier runs have found interesting.
#   tests/fuzz/run.sh [SECONDS] [TARGET...]      deploy/build.sh --preset fuzz fuzz comes first
# PREHEAT_FUZZ_TIMEOUT: seconds for one input, by the clock: more than 60 where the process may be stopped meanwhile.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build/fuzz
seconds=${1:-60}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(program message archive torch_script_file plan buckets)
[ ! -x "$build/bin/fuzz_torch_script" ] || [ $# -gt 0 ] || targets+=(torch_script)

# A folder of its own: runs of other targets may go on beside this one.
seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
limit=${PREHEAT_FUZZ_TIMEOUT:-60}
"$build/bin/write_seeds" "$seeds" "$root/tests/rejects"
for target in "${targets[@]}"; do
  mkdir -p "$build/corpus/$target" "$build/found/$target"
  folders=("$build/corpus/$target" "$seeds/$target")
  [ -d "$root/tests/fuzz/found/$target" ] && folders+=("$root/tests/fuzz/found/$target")
  echo "== $target: $seconds s"
  "$build/bin/fuzz_$target" -max_total_time="$seconds" -timeout="$limit" -report_slow_units="$limit" -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$build/found/$target/" "${folders[@]}" 2>&1 | grep -E "ERROR:|SUMMARY|Sanitizer|stat::|^#.*DONE|Test unit" || true
  if [ -n "$(ls -A "$build/found/$target")" ]; then
    echo "found: $build/found/$target" >&2
    exit 1
  fi
done
