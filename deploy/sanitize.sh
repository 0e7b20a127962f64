#!/usr/bin/env bash
# Builds tests with a sanitizer and runs them. What the sanitizers are told to overlook, with reasons: tests/sanitizers/suppressions.txt
#   deploy/sanitize.sh asan [TEST...]      AddressSanitizer and UndefinedBehaviorSanitizer: every test that links no torch
#   deploy/sanitize.sh fuzz [TEST...]      the same by clang, in the build of tests/fuzz, which has most of it already
#   deploy/sanitize.sh tsan [TEST...]      ThreadSanitizer: support, cache, server, client, runtime and what is below them
# TEST is a program without _test: cache, server. PREHEAT_GTEST_FILTER goes to the tests.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

threads="support cache rpc server client load_lib device library runtime faults"
memory="$threads ir rewrite capture decompose rejects passes schedule codegen codegen_cpu codegen_cuda cpu_math artifact compiler
  reference_inputs report_page library_cuda compilectl_lib worker golden conformance autotune compile_cost nvrtc"

preset=${1:-}
shift || true
case $preset in
  asan | fuzz) tests=$memory ;;
  tsan) tests=$threads ;;
  *) die "give asan, fuzz or tsan" "deploy/sanitize.sh asan" ;;
esac
[ $# -eq 0 ] || tests=$*

# Not every folder has a test of its own.
build=$PREHEAT_ROOT/build/$preset
cd "$PREHEAT_ROOT"
mkdir -p build
cmake --preset "$preset" >"build/configure-$preset.log" 2>&1 || die "cmake failed" "see build/configure-$preset.log"
known=$(ninja -C "$build" -t targets all | sed -n 's/^\([a-z_]*_test\): phony$/\1/p')
programs=()
for name in $tests; do
  if grep -qx "${name}_test" <<<"$known"; then programs+=("${name}_test"); fi
done
[ ${#programs[@]} -gt 0 ] || die "no such test: $tests" "ls $build/bin after a run without names"
[ -n "${PREHEAT_RUN_ONLY:-}" ] || deploy/build.sh --preset "$preset" "${programs[@]}"

for tool in race leak; do
  pattern="^$tool:"
  [ "$tool" = leak ] || pattern='^(race|race_top|called_from_lib|signal|mutex|deadlock|thread):'
  grep -E "$pattern" tests/sanitizers/suppressions.txt >"$build/$tool.supp" || true
done
export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1:${ASAN_OPTIONS:-}"
export LSAN_OPTIONS="suppressions=$build/leak.supp:print_suppressions=0"
# clang 14's leak checker reads past the thread-local memory of an opened library and crashes on Debian 12's glibc. Where
# it looks for no pointers there, it reports more leaks, never fewer.
[ "$preset" != fuzz ] || export LSAN_OPTIONS="$LSAN_OPTIONS:use_tls=0"
export UBSAN_OPTIONS="print_stacktrace=1"
# Debian's libraries are not instrumented: what they free and copy under locks that ThreadSanitizer does not see is no race.
# A long history: suppressions go by the stacks of both sides, and the older one must still be known.
export TSAN_OPTIONS="suppressions=$build/race.supp:second_deadlock_stack=1:ignore_noninstrumented_modules=1:history_size=7:exitcode=66:${TSAN_OPTIONS:-}"

failed=()
for program in "${programs[@]}"; do
  log=$build/$program.log
  if cmake/in_own_folder.sh "$build/bin/$program" ${PREHEAT_GTEST_FILTER:+"--gtest_filter=$PREHEAT_GTEST_FILTER"} >"$log" 2>&1 &&
    ! grep -qE "WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer|runtime error:" "$log"; then
    say "$program: $(grep -E '^\[  PASSED  \]' "$log" | head -1 | sed 's/.*PASSED  . *//')"
  else
    say "$program: FAILED, see $log"
    failed+=("$program")
  fi
done
[ ${#failed[@]} -eq 0 ] || die "${#failed[@]} of ${#programs[@]} fail under $preset: ${failed[*]}" "read $build/NAME_test.log"
say "$preset: ${#programs[@]} test programs, no finding"
