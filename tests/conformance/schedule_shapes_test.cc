// Every way that kernels are laid over vectors, threads and blocks, at sizes around those where it changes: whole
// vectors and tails, one element, none, rows that fit registers and rows that do not, addresses that are not aligned.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/conformance/check_graph.h"

namespace preheat {
namespace {

using testing::Check;
using testing::CheckText;

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string AlignedToAnElement(absl::string_view input) {
  const bool two = absl::StrContains(input, "f16["), eight = absl::StrContains(input, "64[");
  return absl::StrCat(" align ", two ? 2 : eight ? 8 : absl::StrContains(input, "bool[") ? 1 : 4);
}

void CheckAs(const std::string& text, const Fields& fields, const ir::SymbolValues& symbols = {}) {
  std::string program = text;
  for (const auto& [from, to] : fields) program = absl::StrReplaceAll(program, {{from, to}});
  // Whatever addresses the elements allow are promised to be taken.
  std::string unaligned;
  for (absl::string_view line : absl::StrSplit(absl::StripAsciiWhitespace(program), '\n')) {
    absl::StrAppend(&unaligned, line, absl::StrContains(line, "= input ") ? AlignedToAnElement(line) : "", "\n");
  }
  SCOPED_TRACE(unaligned);
  CheckText(unaligned, symbols, /*unaligned=*/true);
}

std::string N(int64_t n) { return std::to_string(n); }

TEST(ScheduleShapes, PointwiseWithABiasOfRows) {
  const char* text = R"(
%x = input user DTYPE[ROWS, SIZE]
%b = input user DTYPE[SIZE]
%r = reshape(%b) {shape = (1, SIZE)}
%w = broadcast(%r) {shape = (ROWS, SIZE)}
%s = add(%x, %w)
%t = tanh(%s)
%e = exp(%t)
output %t
output %e)";
  for (int64_t n : {1, 2, 7, 8, 12, 64, 100, 257}) {
    CheckAs(text, {{"DTYPE", n % 2 ? "f32" : "bf16"}, {"ROWS", N(1 + 300 / n)}, {"SIZE", N(n)}});
  }
  CheckAs(text, {{"DTYPE", "f16"}, {"ROWS", "3"}, {"SIZE", "4104"}});
  CheckAs(text, {{"DTYPE", "bf16"}, {"ROWS", "0"}, {"SIZE", "64"}});
}

TEST(ScheduleShapes, MixedWidthsFlat) {
  CheckAs(R"(
%x = input user bf16[SIZE]
%m = input user bool[SIZE]
%d = input user f64[SIZE]
%l = input user i64[SIZE]
%f = cast(%x) {dtype = f64}
%g = cast(%l) {dtype = f64}
%a = add(%f, %d)
%h = mul(%a, %g)
%w = where(%m, %h, %d)
%o = not(%m)
output %w
output %o)",
          {{"SIZE", "5003"}});
}

TEST(ScheduleShapes, PiecesOfARow) {
  const char* text = R"(
%x = input user bf16[ROWS, HEADS, SIZE]
%c = input user bf16[HEADS, SIZE]
%lo = slice(%x) {starts = (0, 0, 0), sizes = (ROWS, HEADS, HALF), steps = [1, 1, 1]}
%hi = slice(%x) {starts = (0, 0, HALF), sizes = (ROWS, HEADS, HALF), steps = [1, 1, 1]}
%n = neg(%hi)
%r = concat(%n, %lo) {dim = 2}
%cr = reshape(%c) {shape = (1, HEADS, SIZE)}
%cb = broadcast(%cr) {shape = (ROWS, HEADS, SIZE)}
%m = mul(%r, %cb)
%y = add(%m, %x)
output %y)";
  for (int64_t half : {1, 4, 5, 32}) {
    CheckAs(text, {{"ROWS", "6"}, {"HEADS", "9"}, {"SIZE", N(2 * half)}, {"HALF", N(half)}});
  }
}

// One piece is as long as a block of threads, the other needs two of them.
TEST(ScheduleShapes, PiecesOfOneBlockAndOfTwo) {
  CheckAs(R"(
%x = input user f32[16, 64]
%y = input user f32[16, 32]
%c = concat(%x, %y) {dim = 1}
%n = neg(%c)
output %n)",
          {});
}

// Softmax: what its stages read stays in registers, or does not.
TEST(ScheduleShapes, Rows) {
  const char* text = R"(
%x = input user DTYPE[ROWS, SIZE]
%f = cast(%x) {dtype = f32}
%s = reduce_max(%f) {dims = [1]}
%r = reshape(%s) {shape = (ROWS, 1)}
%b = broadcast(%r) {shape = (ROWS, SIZE)}
%d = sub(%f, %b)
%e = exp(%d)
%t = reduce_sum(%e) {dims = [1]}
%tr = reshape(%t) {shape = (ROWS, 1)}
%tb = broadcast(%tr) {shape = (ROWS, SIZE)}
%q = div(%e, %tb)
%y = cast(%q) {dtype = DTYPE}
output %y)";
  for (int64_t n : {1, 3, 8, 16, 31, 33, 64, 72, 250, 256, 1000, 1024}) {
    CheckAs(text, {{"DTYPE", n % 3 ? "bf16" : "f32"}, {"ROWS", N(1 + 700 / n)}, {"SIZE", N(n)}});
  }
  for (int64_t n : {2056, 4099, 8192, 33000}) {
    CheckAs(text, {{"DTYPE", n % 8 ? "f32" : "bf16"}, {"ROWS", "3"}, {"SIZE", N(n)}});
  }
  CheckAs(text, {{"DTYPE", "bf16"}, {"ROWS", "530"}, {"SIZE", "512"}});
  CheckAs("symbol n in [0, 512]\n" + std::string(text), {{"DTYPE", "f32"}, {"ROWS", "n"}, {"SIZE", "40"}}, {{"n", 5}});
  CheckAs("symbol n in [1, 512]\n" + std::string(text), {{"DTYPE", "bf16"}, {"ROWS", "4"}, {"SIZE", "n"}}, {{"n", 77}});
}

TEST(ScheduleShapes, RowsOfSeveralLoopsAndTheFirstOfTheBest) {
  const char* text = R"(
%x = input user f32[2, ROWS, 3, SIZE]
%m = argmax(%x) {dim = 3}
%p = permute(%x) {dims = [1, 0, 2, 3]}
%s = reduce_sum(%p) {dims = [1, 2, 3]}
%n = argmin(%x) {dim = 1}
output %m
output %s
output %n)";
  for (int64_t n : {1, 5, 32, 68, 512}) CheckAs(text, {{"ROWS", N(1 + 64 / n)}, {"SIZE", N(n)}});
}

// Sums of columns whose operand is stored too, in one kernel or in parts.
TEST(ScheduleShapes, Columns) {
  const char* text = R"(
%x = input user DTYPE[ROWS, SIZE]
%y = input user DTYPE[ROWS, SIZE]
%w = input user f32[SIZE]
%xf = cast(%x) {dtype = f32}
%yf = cast(%y) {dtype = f32}
%wr = reshape(%w) {shape = (1, SIZE)}
%wb = broadcast(%wr) {shape = (ROWS, SIZE)}
%a = mul(%xf, %yf)
%m = mul(%a, %wb)
%g = tanh(%m)
%c = cast(%g) {dtype = DTYPE}
%s = reduce_sum(%g) {dims = [0]}
%t = reduce_max(%xf) {dims = [0]}
output %c
output %s
output %t)";
  for (int64_t n : {2, 8, 24, 33, 100, 264}) {
    CheckAs(text, {{"DTYPE", n % 2 ? "f32" : "bf16"}, {"ROWS", N(1 + 900 / n)}, {"SIZE", N(n)}});
  }
  CheckAs(text, {{"DTYPE", "bf16"}, {"ROWS", "4096"}, {"SIZE", "40"}});  // by a divisor
  CheckAs(text, {{"DTYPE", "bf16"}, {"ROWS", "8209"}, {"SIZE", "24"}});  // a prime: filled up
  CheckAs(text, {{"DTYPE", "f32"}, {"ROWS", "1"}, {"SIZE", "1030"}});
  CheckAs(text, {{"DTYPE", "f32"}, {"ROWS", "20000"}, {"SIZE", "7"}});
}

TEST(ScheduleShapes, ColumnsOfSeveralLoops) {
  CheckAs(R"(
%x = input user bf16[3, 700, 6, 16]
%f = cast(%x) {dtype = f32}
%s = reduce_sum(%f) {dims = [0, 1]}
%m = argmax(%f) {dim = 1}
output %s
output %m)",
          {});
  CheckAs(R"(
%x = input user f32[64, 5, 4096]
%s = reduce_sum(%x) {dims = [0, 2]}
%q = mul(%x, %x)
%t = reduce_sum(%q) {dims = [0, 1, 2]}
output %s
output %t)",
          {});
}

TEST(ScheduleShapes, Windows) {
  const char* text = R"(
%x = input user DTYPE[2, CHANNELS, 9, 12]STRIDES
%p = pad(%x) {low = (0, 0, 1, 1), high = (0, 0, 1, 1), value = -inf}
%h = window(%p) {dim = 2, size = 3, step = 2, dilation = 1}
%o = window(%h) {dim = 3, size = 3, step = 2, dilation = 1}
%m = reduce_max(%o) {dims = [4, 5]}
output %mOUT)";
  for (int64_t c : {3, 8, 40}) {
    const std::string channels = N(c), row = N(12 * c), image = N(108 * c);
    CheckAs(text, {{"DTYPE", "f32"}, {"STRIDES", ""}, {"OUT", ""}, {"CHANNELS", channels}});
    CheckAs(text, {{"DTYPE", "bf16"},
                   {"STRIDES", " strides [" + image + ", 1, " + row + ", " + channels + "]"},
                   {"OUT", " strides [" + N(30 * c) + ", 1, " + N(6 * c) + ", " + channels + "]"},
                   {"CHANNELS", channels}});
  }
}

TEST(ScheduleShapes, Transposed) {
  const char* text = R"(
%x = input user DTYPE[BATCH, ROWS, SIZE]
%y = input user DTYPE[BATCH, SIZE, ROWS]
%t = permute(%x) {dims = [0, 2, 1]}
%z = add(%t, %y)
output %z)";
  for (const char* dtype : {"bf16", "f32", "f64"}) {
    CheckAs(text, {{"DTYPE", dtype}, {"BATCH", "1"}, {"ROWS", "128"}, {"SIZE", "64"}});
    CheckAs(text, {{"DTYPE", dtype}, {"BATCH", "2"}, {"ROWS", "100"}, {"SIZE", "72"}});
    CheckAs(text, {{"DTYPE", dtype}, {"BATCH", "1"}, {"ROWS", "67"}, {"SIZE", "33"}});
  }
  CheckAs("symbol n in [1, 512]\n" + std::string(text),
          {{"DTYPE", "bf16"}, {"BATCH", "1"}, {"ROWS", "n"}, {"SIZE", "64"}}, {{"n", 90}});
}

TEST(ScheduleShapes, PutRows) {
  const char* text = R"(
%x = input user DTYPE[ROWS, SIZE]
%i = input user i64[COUNT]
%u = input user DTYPE[COUNT, SIZE]
%n = input user DTYPE[4, 7, 3]
%v = input user DTYPE[4, COUNT, 3]
%z = fill {value = ZERO} : DTYPE[ROWS, SIZE]
%p = put_rows(%z, %i, %u) {dim = 0, reduce = "REDUCE"}
%q = put_rows(%x, %i, %u) {dim = 0, reduce = "REDUCE"}
%r = put_rows(%n, %i, %v) {dim = 1, reduce = "REDUCE"}
output %p
output %q
output %r)";
  for (const char* reduce : {"add", "set", "max"}) {
    CheckAs(text,
            {{"ZERO", "0.0"}, {"DTYPE", "f32"}, {"ROWS", "70"}, {"SIZE", "5"}, {"COUNT", "1100"}, {"REDUCE", reduce}});
    CheckAs(text,
            {{"ZERO", "0"}, {"DTYPE", "i64"}, {"ROWS", "4"}, {"SIZE", "300"}, {"COUNT", "9"}, {"REDUCE", reduce}});
  }
  CheckAs(text,
          {{"ZERO", "0.0"}, {"DTYPE", "f32"}, {"ROWS", "5"}, {"SIZE", "1"}, {"COUNT", "2050"}, {"REDUCE", "add"}});
  CheckAs(text, {{"ZERO", "0.0"}, {"DTYPE", "f32"}, {"ROWS", "5"}, {"SIZE", "4"}, {"COUNT", "0"}, {"REDUCE", "add"}});
}

TEST(ScheduleShapes, Scans) {
  const char* text = R"(
%x = input user DTYPE[ROWS, SIZE]
%a = scan_sum(%x) {dim = 1}
%b = scan_max(%x) {dim = 1}
%c = scan_sum(%x) {dim = 0}
%d = scan_min(%x) {dim = 0}
output %a
output %b
output %c
output %d)";
  for (int64_t n : {1, 63, 64, 300, 2050}) {
    CheckAs(text, {{"DTYPE", n % 2 ? "f32" : "i64"}, {"ROWS", N(1 + 130 / n)}, {"SIZE", N(n)}});
  }
  CheckAs(text, {{"DTYPE", "f64"}, {"ROWS", "70"}, {"SIZE", "0"}});
  CheckAs("symbol n in [1, 4096]\n" + std::string(text), {{"DTYPE", "i32"}, {"ROWS", "3"}, {"SIZE", "n"}},
          {{"n", 1100}});
}

// Functions that kernels with 16-bit floats take in place of the exact ones, over all magnitudes.
TEST(ScheduleShapes, NearFunctions) {
  for (const char* dtype : {"bf16", "f16"}) {
    CheckAs(R"(
%x = input user DTYPE[4096]
%f = cast(%x) {dtype = f32}
%k = fill {value = 6.0} : f32[4096]
%z = mul(%f, %k)
%a = tanh(%z)
%b = erf(%f)
%c = exp(%z)
%d = tanh(%f)
%e = reciprocal(%z)
%g = cast(%d) {dtype = DTYPE}
output %a
output %b
output %c
output %e
output %g)",
            {{"DTYPE", dtype}});
  }
}

}  // namespace
}  // namespace preheat
