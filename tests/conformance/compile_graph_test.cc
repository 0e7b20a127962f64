#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/parse.h"
#include "tests/conformance/check_graph.h"
#include "tests/conformance/graph_runner.h"
#include "tests/conformance/random_graph.h"

namespace preheat {
namespace {

using testing::Check;
using testing::CheckText;
using testing::Differ;
using testing::GraphRunner;
using testing::RandomInputs;
using testing::Target;

TEST(CompileGraph, SoftmaxIsOneKernel) {
  Report report = CheckText(R"(
symbol d0 in [1, 512]
%x = input user f32[d0, 16, 64]
%s = reduce_max(%x) {dims = [2]}
%r = reshape(%s) {shape = (d0, 16, 1)}
%b = broadcast(%r) {shape = (d0, 16, 64)}
%d = sub(%x, %b)
%e = exp(%d)
%t = reduce_sum(%e) {dims = [2]}
%tr = reshape(%t) {shape = (d0, 16, 1)}
%tb = broadcast(%tr) {shape = (d0, 16, 64)}
%y = div(%e, %tb)
output %y strides [1024, 64, 1])",
                            {{"d0", 5}});
  EXPECT_EQ(report.kernels_after, 1);
}

// On a CPU one library call that stores no scores: any number of them, whose rows see what is before them.
TEST(CompileGraph, AttentionOfUnknownLength) {
  Report report = CheckText(R"(
symbol n in [1, 4096]
%q = input user f32[n, 2, 8]
%k = input user f32[n, 2, 8]
%v = input user f32[n, 2, 24]
%m = input user f32[2, n]
%qh = permute(%q) {dims = [1, 0, 2]}
%kt = permute(%k) {dims = [1, 2, 0]}
%vh = permute(%v) {dims = [1, 0, 2]}
%mr = reshape(%m) {shape = (2, 1, n)}
%mb = broadcast(%mr) {shape = (2, n, n)}
%row = iota {dim = 1} : i64[2, n, n]
%column = iota {dim = 2} : i64[2, n, n]
%seen = le(%column, %row)
%none = fill {value = -inf} : f32[2, n, n]
%f = fill {value = 0.5} : f32[2, n, n]
%p = matmul(%qh, %kt)
%s0 = mul(%p, %f)
%s1 = add(%s0, %mb)
%s = where(%seen, %s1, %none)
%x = reduce_max(%s) {dims = [2]}
%xr = reshape(%x) {shape = (2, n, 1)}
%xb = broadcast(%xr) {shape = (2, n, n)}
%d = sub(%s, %xb)
%e = exp(%d)
%t = reduce_sum(%e) {dims = [2]}
%tr = reshape(%t) {shape = (2, n, 1)}
%tb = broadcast(%tr) {shape = (2, n, n)}
%w = div(%e, %tb)
%o = matmul(%w, %vh)
output %o)",
                            {{"n", 261}});
  if (absl::StartsWith(Target(), "cpu")) {
    EXPECT_EQ(report.kernels_after, 1);
  }
}

// What a bool mask hides; one row sees nothing and gives zeros.
TEST(CompileGraph, AttentionBehindAMask) {
  Report report = CheckText(R"(
%q = input user f32[3, 256, 8]
%k = input user f32[3, 8, 260]
%v = input user f32[3, 260, 5]
%c = input user f32[256, 1]
%zero = fill {value = 0.0} : f32[256, 1]
%keep = lt(%zero, %c)
%keepr = reshape(%keep) {shape = (1, 256, 1)}
%keepb = broadcast(%keepr) {shape = (3, 256, 260)}
%none = fill {value = -inf} : f32[3, 256, 260]
%none1 = fill {value = -inf} : f32[3, 256]
%zero1 = fill {value = 0.0} : f32[3, 256]
%one1 = fill {value = 1.0} : f32[3, 256]
%p = matmul(%q, %k)
%s = where(%keepb, %p, %none)
%x = reduce_max(%s) {dims = [2]}
%xn = eq(%x, %none1)
%xg = where(%xn, %zero1, %x)
%xr = reshape(%xg) {shape = (3, 256, 1)}
%xb = broadcast(%xr) {shape = (3, 256, 260)}
%d = sub(%s, %xb)
%e = exp(%d)
%t = reduce_sum(%e) {dims = [2]}
%tn = eq(%t, %zero1)
%tg = where(%tn, %one1, %t)
%tr = reshape(%tg) {shape = (3, 256, 1)}
%tb = broadcast(%tr) {shape = (3, 256, 260)}
%w = div(%e, %tb)
%o = matmul(%w, %v)
output %o)");
  if (absl::StartsWith(Target(), "cpu")) {
    EXPECT_LE(report.kernels_after, 2);
  }
}

TEST(CompileGraph, RotaryEmbeddingAndColumnSum) {
  Report report = CheckText(R"(
%x = input user f32[8, 128, 64]
%c = input user f32[128, 64]
%x1 = slice(%x) {sizes = (8, 128, 32), starts = (0, 0, 0), steps = [1, 1, 1]}
%x2 = slice(%x) {sizes = (8, 128, 32), starts = (0, 0, 32), steps = [1, 1, 1]}
%n = neg(%x2)
%r = concat(%n, %x1) {dim = 2}
%cr = reshape(%c) {shape = (1, 128, 64)}
%cb = broadcast(%cr) {shape = (8, 128, 64)}
%m = mul(%r, %cb)
%y = add(%m, %x)
%sq = mul(%x, %x)
%col = reduce_sum(%sq) {dims = [0, 1]}
output %y
output %col)");
  EXPECT_EQ(report.kernels_after, 2);
}

// Where the row is padding, the kept function of it is a constant: it must be kept all the same (random program 1030).
TEST(CompileGraph, KeptValuesCoverTheirRow) {
  CheckText(R"(
%x = input user f32[5, 33]
%p = pad(%x) {high = (0, 1), low = (0, 2), value = 0.25}
%a = atan(%p)
%s = reduce_sum(%a) {dims = [1]}
%r = reshape(%s) {shape = (5, 1)}
%b = broadcast(%r) {shape = (5, 36)}
%y = sub(%a, %b)
output %y)");
}

// All three regions are one kernel; the second reads its values in the other order of the graph.
TEST(CompileGraph, EqualRegionsShareAKernelAndNotTheirValues) {
  Report report = CheckText(R"(
%x = input user f32[8, 8]
%v = input user f32[8, 8]
%w = input user f32[8, 8]
%a = matmul(%x, %w)
%s = sub(%a, %v)
%e = exp(%s)
%b = matmul(%e, %w)
%t = sub(%x, %b)
%f = exp(%t)
%c = matmul(%f, %w)
%u = sub(%c, %x)
%g = exp(%u)
output %e
output %f
output %g)");
  std::multiset<std::string> names;
  for (const KernelReport& kernel : report.kernels) names.insert(kernel.name);
  EXPECT_EQ(names.count(*names.begin()) + names.count(*names.rbegin()), 6u);  // and three products
}

// Memory of four matrices of 1 KiB; the last product needs three.
TEST(CompileGraph, WhatIsReadLateIsComputedLate) {
  Report report = CheckText(R"(
%x = input user f32[16, 16]
%u = input user f32[16, 16]
%v = matmul(%x, %u)
%a = matmul(%u, %x)
%b = matmul(%a, %u)
%c = matmul(%b, %u)
%y = matmul(%c, %v)
output %y)");
  if (Target().rfind("cpu:", 0) == 0) {
    EXPECT_EQ(report.peak_bytes_after, 3 * 1024);
  }
}

// The first product is gone before the result is written, and takes its memory.
TEST(CompileGraph, ResultsLendTheirMemory) {
  Report report = CheckText(R"(
%x = input user f32[16, 16]
%a = matmul(%x, %x)
%b = matmul(%a, %x)
%y = matmul(%b, %x)
output %y)");
  if (Target().rfind("cpu:", 0) == 0) {
    EXPECT_EQ(report.peak_bytes_after, 2 * 1024);
  }
}

// Attention's weights are written over its scores, which three stages of the kernel read.
TEST(CompileGraph, RowsAreWrittenOverWhatTheyAreMadeOf) {
  Report report = CheckText(R"(
symbol d0 in [1, 512]
%x = input user f32[d0, 64]
%k = input user f32[64, 64]
%product = matmul(%x, %k)
%s = tanh(%product)
%m = reduce_max(%s) {dims = [1]}
%mr = reshape(%m) {shape = (d0, 1)}
%mb = broadcast(%mr) {shape = (d0, 64)}
%d = sub(%s, %mb)
%e = exp(%d)
%t = reduce_sum(%e) {dims = [1]}
%tr = reshape(%t) {shape = (d0, 1)}
%tb = broadcast(%tr) {shape = (d0, 64)}
%p = div(%e, %tb)
%y = matmul(%p, %k)
output %y)",
                            {{"d0", 40}});
  EXPECT_EQ(report.kernels_after, 3);
  if (Target().rfind("cpu:", 0) == 0) {
    EXPECT_EQ(report.peak_bytes_after, 2 * 64 * 4);  // sizes that are not known count as one
  }
}

// What other places of the result are made of keeps its memory.
TEST(CompileGraph, WhatIsReadElsewhereIsNotOverwritten) {
  for (const char* moved : {"permute(%a) {dims = [1, 0]}", "flip(%a) {dims = [1]}"}) {
    Report report = CheckText(absl::StrCat(R"(
%x = input user f32[32, 32]
%v = input user f32[32, 1]
%a = matmul(%x, %x)
%b = )",
                                           moved, R"(
%s = add(%a, %b)
%y = matmul(%s, %v)
output %y)"));
    if (Target().rfind("cpu:", 0) == 0) {
      EXPECT_EQ(report.peak_bytes_after, 2 * 4096 + 128);
    }
  }
  Report report = CheckText(R"(
%x = input user f32[32, 32]
%v = input user f32[32, 1]
%a = matmul(%x, %x)
%s = sin(%a)
%y = matmul(%s, %v)
output %y)");
  if (Target().rfind("cpu:", 0) == 0) {
    EXPECT_EQ(report.peak_bytes_after, 4096 + 128);
  }
}

// A pooled value is stored without its padding, over the product that it is made of.
TEST(CompileGraph, WindowsLeavePaddingOut) {
  Report report = CheckText(R"(
%x = input user f32[8, 64]
%w = input user f32[64, 64]
%s = input user f32[64]
%m = matmul(%x, %w)
%s1 = reshape(%s) {shape = (1, 64)}
%sb = broadcast(%s1) {shape = (8, 64)}
%a = mul(%m, %sb)
%b = exp(%a)
%p = pad(%b) {low = (1, 0), high = (1, 0), value = -inf}
%v = window(%p) {dim = 0, size = 3, step = 2, dilation = 1}
%r = reduce_max(%v) {dims = [2]}
output %r)");
  if (Target().rfind("cpu:", 0) == 0) {
    EXPECT_EQ(report.peak_bytes_after, (8 + 4) * 64 * 4);
  }
}

TEST(CompileGraph, TransposedOperandsAreReadInBlocks) {
  for (const char* shape : {"40, 130", "16, 64", "129, 17"}) {
    std::string text = R"(
%x = input user f32[A]
%y = input user f32[B]
%t = permute(%x) {dims = [1, 0]}
%z = add(%t, %y)
%e = exp(%z)
output %e)";
    std::string a = shape, b = a.substr(a.find(',') + 2) + ", " + a.substr(0, a.find(','));
    text.replace(text.find("[A]"), 3, "[" + a + "]");
    text.replace(text.find("[B]"), 3, "[" + b + "]");
    Report report = CheckText(text);
    EXPECT_EQ(report.kernels_after, 1);
  }
}

// A cross entropy picks one log probability a row: the others are not computed, let alone stored.
TEST(CompileGraph, PickedElementsAreComputedWhereTheyAreRead) {
  Report report = CheckText(R"(
%x = input user bf16[6, 40]
%t = input user i64[6, 1]
%f = cast(%x) {dtype = f32}
%m = reduce_max(%f) {dims = [1]}
%mr = reshape(%m) {shape = (6, 1)}
%mb = broadcast(%mr) {shape = (6, 40)}
%d = sub(%f, %mb)
%e = exp(%d)
%s = reduce_sum(%e) {dims = [1]}
%l = log(%s)
%lr = reshape(%l) {shape = (6, 1)}
%lb = broadcast(%lr) {shape = (6, 40)}
%z = sub(%d, %lb)
%g = gather(%z, %t) {dim = 1}
%n = neg(%g)
%w = input parameter f32[30, 24]
%i = input user i64[7]
%h = cast(%w) {dtype = bf16}
%r = take(%h, %i) {dim = 0}
output %n
output %m
output %l
output %r)");
  EXPECT_LE(report.kernels_after, 3);
}

// Convolutions with channels last: pooling and sums over pixels between them, a residual, one filter a channel.
TEST(CompileGraph, ConvolutionsWorkOnPixels) {
  CheckText(R"(
%x = input user f32[2, 3, 11, 9]
%w = input parameter f32[16, 3, 3, 3]
%v = input parameter f32[16]
%u = input parameter f32[16, 16, 1, 1]
%k = input parameter f32[16, 1, 3, 3]
%c = conv(%x, %w) {stride = [2, 2], padding = [1, 1], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0}
%v4 = reshape(%v) {shape = (1, 16, 1, 1)}
%vb = broadcast(%v4) {shape = (2, 16, 6, 5)}
%a = add(%c, %vb)
%e = exp(%a)
%p = pad(%e) {low = (0, 0, 1, 1), high = (0, 0, 1, 1), value = -inf}
%h = window(%p) {dim = 2, size = 3, step = 2, dilation = 1}
%o = window(%h) {dim = 3, size = 3, step = 2, dilation = 1}
%m = reduce_max(%o) {dims = [4, 5]}
%d = conv(%m, %u) {stride = [1, 1], padding = [0, 0], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0}
%q = add(%d, %m)
%f = conv(%q, %k) {stride = [1, 1], padding = [1, 1], groups = 16, dilation = [1, 1], output_padding = [0, 0], transposed = 0}
%s = reduce_sum(%f) {dims = [2, 3]}
%n = neg(%q)
output %s
output %n)");
}

// What a GPU multiplies as matrices: patches of an image, filters of one pixel with a bias, a residual and a ReLU, and
// their neighbours: a stem, a stride, groups.
TEST(CompileGraph, ConvolutionsOfPatchesAndPixels) {
  CheckText(R"(
%x = input user bf16[2, 3, 12, 8]
%w = input parameter bf16[16, 3, 4, 4]
%v = input parameter bf16[16]
%u = input parameter bf16[24, 16, 1, 1]
%t = input parameter bf16[24]
%k = input parameter bf16[16, 24, 1, 1]
%g = input parameter bf16[16, 4, 3, 3]
%s = input parameter bf16[8, 16, 1, 1]
%c = conv(%x, %w) {stride = [4, 4], padding = [0, 0], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0}
%v4 = reshape(%v) {shape = (1, 16, 1, 1)}
%vb = broadcast(%v4) {shape = (2, 16, 3, 2)}
%a = add(%c, %vb)
%d = conv(%a, %u) {stride = [1, 1], padding = [0, 0], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0}
%t4 = reshape(%t) {shape = (1, 24, 1, 1)}
%tb = broadcast(%t4) {shape = (2, 24, 3, 2)}
%e = add(%d, %tb)
%zero = fill {value = 0.0} : bf16[2, 24, 3, 2]
%r = max(%e, %zero)
%f = conv(%r, %k) {stride = [1, 1], padding = [0, 0], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0}
%h = add(%f, %a)
%i = conv(%h, %g) {stride = [1, 1], padding = [1, 1], groups = 4, dilation = [1, 1], output_padding = [0, 0], transposed = 0}
%j = add(%i, %vb)
%z = fill {value = 0.0} : bf16[2, 16, 3, 2]
%l = max(%j, %z)
%m = conv(%l, %s) {stride = [2, 2], padding = [0, 0], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0}
output %m
output %h)");
}

// Gradients, the sum over a batch of patches among them, and one dimension, and a transposed convolution.
TEST(CompileGraph, GradientsOfConvolutions) {
  CheckText(R"(
%x = input user bf16[2, 3, 8, 8]
%y = input user bf16[2, 6, 2, 2]
%w = input parameter bf16[6, 3, 4, 4]
%p = conv_grad_weight(%y, %x) {stride = [4, 4], padding = [0, 0], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0} : bf16[6, 3, 4, 4]
%q = conv_grad_input(%y, %w) {stride = [4, 4], padding = [0, 0], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0} : bf16[2, 3, 8, 8]
output %p
output %q)");
  CheckText(R"(
%x = input user f32[2, 4, 9]
%w = input parameter f32[6, 4, 3]
%t = input parameter f32[6, 5, 3]
%c = conv(%x, %w) {stride = [2], padding = [1], groups = 1, dilation = [1], output_padding = [0], transposed = 0}
%e = exp(%c)
%d = conv(%e, %t) {stride = [2], padding = [1], groups = 1, dilation = [1], output_padding = [1], transposed = 1}
%g = conv_grad_weight(%e, %x) {stride = [2], padding = [1], groups = 1, dilation = [1], output_padding = [0], transposed = 0} : f32[6, 4, 3]
%h = conv_grad_input(%e, %w) {stride = [2], padding = [1], groups = 1, dilation = [1], output_padding = [0], transposed = 0} : f32[2, 4, 9]
output %d
output %g
output %h)");
}

// One filter of many taps a channel, with channels last, for any number of images: each of a GPU's threads has all
// taps, row by row.
TEST(CompileGraph, FiltersOfManyTaps) {
  for (const char* type : {"f32", "bf16"}) {
    const std::string text = R"(
symbol n in [1, 64]
%x = input user TYPE[n, 9, 11, 16]
%k = input parameter TYPE[4, 7, 16]
%h = window(%x) {dim = 1, size = 4, step = 1, dilation = 1}
%o = window(%h) {dim = 2, size = 7, step = 1, dilation = 1}
%w = permute(%o) {dims = [0, 1, 2, 4, 5, 3]}
%wf = cast(%w) {dtype = f32}
%kf = cast(%k) {dtype = f32}
%r = reshape(%kf) {shape = (1, 1, 1, 4, 7, 16)}
%b = broadcast(%r) {shape = (n, 6, 5, 4, 7, 16)}
%m = mul(%wf, %b)
%s = reduce_sum(%m) {dims = [3, 4]}
%q = neg(%s)
output %q)";
    CheckText(absl::StrReplaceAll(text, {{"TYPE", type}}), {{"n", 3}});
  }
}

// Filters that are larger than what they are applied to are multiplied where they lie.
TEST(CompileGraph, FiltersOutweighTheImage) {
  for (const char* image : {"1, 48, 3, 3", "3, 48, 2, 4"}) {
    std::string text = R"(
%x = input user f32[IMAGE]
%w = input parameter f32[50, 48, 3, 3]
%c = conv(%x, %w) {stride = [1, 1], padding = [1, 1], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0}
%e = exp(%c)
output %e)";
    text.replace(text.find("IMAGE"), 5, image);
    CheckText(text);
  }
}

// Sums over leading dimensions whose operand is stored too, the columns of several parts.
TEST(CompileGraph, ColumnSumsStoreWhatTheyRead) {
  CheckText(R"(
%a = input user f32[21, 32]
%b = input user f32[21, 32]
%c = input user f32[2, 3, 21, 16]
%ab = concat(%a, %b) {dim = 1}
%p = permute(%c) {dims = [2, 0, 1, 3]}
%r = reshape(%p) {shape = (21, 96)}
%x = concat(%ab, %r) {dim = 1}
%e = exp(%x)
%s = reduce_sum(%e) {dims = [0]}
output %s
output %e)");
  CheckText(R"(
symbol n in [1, 64]
%x = input user f32[n, 4, 7, 5]
%y = input user f32[n, 4, 7, 5]
%m = mul(%x, %y)
%s = reduce_sum(%m) {dims = [0, 2, 3]}
output %s
output %m)",
            {{"n", 4}});
}

// The gradients of a layer norm: sums over rows, what they give, and sums over columns go through the rows together;
// another kernel adds the blocks. `also` is a row's result that columns of are summed as well.
TEST(CompileGraph, ColumnsAreSummedWhereRowsAre) {
  for (const char* size : {"256, 160", "8, 32, 129", "96, 40, 64"}) {
    const std::string shape = size, columns = shape.substr(shape.rfind(' ') + 1);
    const bool cube = std::count(shape.begin(), shape.end(), ',') == 2;
    std::string text = R"(
%g = input user f32[SHAPE]
%x = input user f32[SHAPE]
%m = mul(%g, %x)
%s = reduce_sum(%m) {dims = [INNER]}
%r = reshape(%s) {shape = (ROWS, 1)}
%b = broadcast(%r) {shape = (SHAPE)}
%n = mul(%x, %b)
%dx = sub(%g, %n)
%dw = reduce_sum(%m) {dims = [OUTER]}
%db = reduce_sum(%g) {dims = [OUTER]}
%also = reduce_sum(%dx) {dims = [OUTER]}
output %dx
output %dw
output %db
output %also)";
    auto replace = [&](const std::string& from, const std::string& to) {
      for (size_t at; (at = text.find(from)) != std::string::npos;) text.replace(at, from.size(), to);
    };
    replace("SHAPE", shape);
    replace("ROWS", shape.substr(0, shape.rfind(',')));
    replace("INNER", cube ? "2" : "1");
    replace("OUTER", cube ? "0, 1" : "0");
    Report report = CheckText(text);
    if (Target().rfind("cuda", 0) != 0) {
      EXPECT_EQ(report.kernels_after, 2) << shape;
    }
  }
}

// The gradient of a cross entropy: one element a row is not zero, and a long fold looks for it in four places at once.
// GCC 12 made branches of that, and garbage (KernelFlags says how).
TEST(CompileGraph, SelectsThatExcludeEachOtherAreFolded) {
  CheckText(R"(
%t = input user i64[16]
%g = input user f32[16]
%x = input user f32[16, 4096]
%tc = reshape(%t) {shape = (16, 1)}
%gc = reshape(%g) {shape = (16, 1)}
%i = iota {dim = 1} : i64[16, 4096]
%tb = broadcast(%tc) {shape = (16, 4096)}
%gb = broadcast(%gc) {shape = (16, 4096)}
%here = eq(%i, %tb)
%zero = fill {value = 0.0} : f32[16, 4096]
%grad = where(%here, %gb, %zero)
%s = reduce_sum(%grad) {dims = [1]}
%sr = reshape(%s) {shape = (16, 1)}
%sb = broadcast(%sr) {shape = (16, 4096)}
%e = exp(%x)
%m = mul(%e, %sb)
%y = sub(%grad, %m)
output %y)");
}

// Long folds run in parts: lengths around the parts' and a row that is an image.
TEST(CompileGraph, LongFoldsRunInParts) {
  for (const char* size : {"256", "263", "1024", "4096", "5000"}) {
    std::string text = R"(
%x = input user f32[3, SIZE]
%s = reduce_sum(%x) {dims = [1]}
%m = reduce_max(%x) {dims = [1]}
%q = mul(%x, %x)
%t = reduce_sum(%q) {dims = [0, 1]}
output %s
output %m
output %t)";
    text.replace(text.find("SIZE"), 4, size);
    CheckText(text);
  }
  CheckText(R"(
symbol n in [1, 4096]
%x = input user f32[2, n]
%s = reduce_min(%x) {dims = [1]}
output %s)",
            {{"n", 700}});
}

// The relative error of sums of squares, its root mean square over the results.
double ErrorOfSums(const std::string& shape, const std::vector<int64_t>& sizes, const std::string& dims) {
  const char* text = R"(
%x = input user TYPE[SHAPE]
%q = mul(%x, %x)
%s = reduce_sum(%q) {dims = [DIMS]}
output %s)";
  auto graph = [&](const char* type) {
    return ir::ParseGraph(absl::StrReplaceAll(text, {{"TYPE", type}, {"SHAPE", shape}, {"DIMS", dims}}));
  };
  const ir::HostTensor x = testing::RandomTensor(ir::DType::kF32, sizes, 7);
  ir::HostTensor wide = ir::HostTensor::Zeros(ir::DType::kF64, sizes);
  for (int64_t i = 0; i < x.elements(); ++i) wide.SetFloat(i, x.Float(i));
  auto want = ir::Evaluate(*graph("f64"), {wide}, {});
  auto runner = GraphRunner::Make(*graph("f32"), Target());
  if (!want.ok() || !runner.ok()) return INFINITY;
  auto got = runner->Run({x}, {});
  if (!got.ok()) return INFINITY;
  double squares = 0;
  const int64_t results = (*want)[0].elements();
  for (int64_t i = 0; i < results; ++i) squares += std::pow((*got)[0].Float(i) / (*want)[0].Float(i) - 1, 2);
  return std::sqrt(squares / static_cast<double>(results));
}

// The float nearest to a sum is 2.5e-8 off in the mean. Beyond a vector's lanes and blocks of rows little is added.
TEST(CompileGraph, SumsOfSumsAreWide) {
  if (!absl::StartsWith(Target(), "cpu")) GTEST_SKIP() << "of CPUs";
  EXPECT_LT(ErrorOfSums("16, 64, 784", {16, 64, 784}, "0, 2"), 4e-8);
  EXPECT_LT(ErrorOfSums("1024, 300", {1024, 300}, "1"), 6e-8);
  EXPECT_LT(ErrorOfSums("8192, 512", {8192, 512}, "0"), 4e-8);
}

TEST(CompileGraph, AttentionHeadsAreViewsOfTheProduct) {
  CheckText(R"(
%x = input user f32[2, 16, 32]
%w = input parameter f32[32, 32]
%xf = reshape(%x) {shape = (32, 32)}
%wt = permute(%w) {dims = [1, 0]}
%q = matmul(%xf, %wt)
%qh = reshape(%q) {shape = (2, 16, 4, 8)}
%qp = permute(%qh) {dims = [0, 2, 1, 3]}
%kp = permute(%qh) {dims = [0, 2, 3, 1]}
%qb = reshape(%qp) {shape = (8, 16, 8)}
%kb = reshape(%kp) {shape = (8, 8, 16)}
%s = matmul(%qb, %kb)
%o = matmul(%s, %qb)
%oh = reshape(%o) {shape = (2, 4, 16, 8)}
%op = permute(%oh) {dims = [0, 2, 1, 3]}
%y = reshape(%op) {shape = (2, 16, 32)}
output %y)");
}

TEST(CompileGraph, PassedThroughRepeatedAndMutated) {
  CheckText(R"(
%x = input buffer f32[4, 8]
%y = input user f32[4, 8]
%z = add(%x, %y)
output %z strides [8, 1] mutates 0
output %z
output %z
output %x
output %y strides [1, 4])");
}

// On a GPU tensors of one shape are one launch, if none of them waits for another.
TEST(CompileGraph, InputsChangePlaces) {
  CheckText(R"(
%x = input user f32[4, 6]
%y = input user f32[4, 6]
%z = input user f32[4, 6]
output %y strides [6, 1] mutates 0
output %z strides [6, 1] mutates 1
output %x strides [6, 1] mutates 2)");
}

TEST(CompileGraph, EqualKernelsAreOneLaunch) {
  std::string text;
  for (int i = 0; i < 70; ++i) {
    for (const char* name : {"p", "g", "m", "v"}) text += absl::StrCat("%", name, i, " = input user f32[3, 20]\n");
  }
  for (int i = 0; i < 70; ++i) {
    text += absl::StrCat("%a", i, " = add(%m", i, ", %g", i, ")\n%s", i, " = mul(%g", i, ", %v", i, ")\n%q", i,
                         " = div(%a", i, ", %v", i, ")\n%n", i, " = sub(%p", i, ", %q", i, ")\n");
  }
  for (int i = 0; i < 70; ++i) text += absl::StrCat("output %n", i, "\noutput %a", i, "\noutput %s", i, "\n");
  Report report = CheckText(text);
  if (Target().rfind("cuda", 0) == 0) {
    EXPECT_EQ(report.kernels_after, 2);  // 4 KB of pointers at a time
  }
  report = CheckText(R"(
%x = input user f32[40]
%a = exp(%x)
%s = reduce_sum(%a) {dims = [0]}
%b = reshape(%s) {shape = (1)}
%c = broadcast(%b) {shape = (40)}
%d = exp(%c)
%e = exp(%d)
output %a
output %d
output %e)");
}

// On a GPU: threads that share the longer part do nothing for the shorter ones, however evenly these are dealt.
TEST(CompileGraph, PartsOfDifferentLengthsStayWithinTheirEnds) {
  CheckText(R"(
%x = input user f32[128, 4]
%y = input user f32[128, 8]
%a = exp(%x)
%b = neg(%y)
%c = concat(%b, %a) {dim = 1}
output %c)");
}

// On a GPU cuBLASLt takes matrices that are contiguous along one dimension, and adds along contiguous rows.
TEST(CompileGraph, ProductsOfWhatLiesScattered) {
  CheckText(R"(
%x = input user f32[6, 20]
%u = input user f32[6, 1]
%w = input user f32[10, 8]
%v = input user f32[10, 1]
%b = input user f32[8]
%o = input user f32[1]
%a = slice(%x) {sizes = (6, 10), starts = (0, 0), steps = [1, 2]}
%c = matmul(%a, %w) : f32[6, 8]
%d = reshape(%b) {shape = (1, 8)}
%e = broadcast(%d) {shape = (6, 8)}
%f = add(%c, %e)
%g = broadcast(%u) {shape = (6, 10)}
%h = matmul(%g, %w) : f32[6, 8]
%i = matmul(%a, %v) : f32[6, 1]
%j = reshape(%o) {shape = (1, 1)}
%k = broadcast(%j) {shape = (6, 1)}
%l = add(%i, %k)
%m = matmul(%a, %w) : f32[6, 8]
output %f strides [1, 6]
output %h strides [16, 2]
output %l
output %m strides [2, 12])");
}

// A backward pass whose saved images lie with their channels last.
TEST(CompileGraph, GradientsOfChannelsLast) {
  CheckText(R"(
%g = input user f32[2, 8, 6, 6] strides [288, 1, 48, 8]
%s = input user f32[2, 8, 6, 6] strides [288, 1, 48, 8]
%x = input user f32[2, 4, 6, 6] strides [144, 1, 24, 4]
%y = input user f32[2, 4, 6, 6]
%w = input user f32[8, 4, 3, 3]
%m = mul(%g, %s)
%d = conv_grad_input(%m, %w) {stride = [1, 1], padding = [1, 1], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0} : f32[2, 4, 6, 6]
%f = conv_grad_weight(%m, %x) {stride = [1, 1], padding = [1, 1], groups = 1, dilation = [1, 1], output_padding = [0, 0], transposed = 0} : f32[8, 4, 3, 3]
%e = mul(%d, %x)
%a = add(%e, %y)
%r = reduce_sum(%a) {dims = [0, 2, 3]}
output %e strides [144, 1, 24, 4]
output %a
output %r
output %f)");
}

// What has elements is computed even where a kernel could compute it beside something that has none.
TEST(CompileGraph, EmptyResultsBesideOthers) {
  CheckText(R"(
%x = input user f32[]
%y = input user f32[5]
%a = exp(%x)
%b = reshape(%a) {shape = (1)}
%c = broadcast(%b) {shape = (0)}
%d = reshape(%a) {shape = (1, 1)}
%e = broadcast(%d) {shape = (0, 5)}
%f = reshape(%y) {shape = (1, 5)}
%g = neg(%f)
%h = broadcast(%g) {shape = (0, 5)}
%i = add(%e, %h)
output %a
output %c
output %g
output %i)");
}

// On a GPU: every run is recorded once, and from then on its results lie elsewhere.
TEST(CompileGraph, ResultsThatLieElsewhereAreFollowed) {
  constexpr int kSteps = 24;
  std::string text = "%x0 = input user f32[8, 12]\n", outputs;
  for (int i = 1; i <= kSteps; ++i) {
    const bool rows = i % 2 == 0;
    absl::StrAppend(&text, "%s", i, " = reduce_sum(%x", i - 1, ") {dims = [", rows ? 1 : 0, "]}\n%k", i,
                    " = reshape(%s", i, ") {shape = (", rows ? "8, 1" : "1, 12", ")}\n%b", i, " = broadcast(%k", i,
                    ") {shape = (8, 12)}\n%x", i, " = sub(%x", i - 1, ", %b", i, ")\n");
    absl::StrAppend(&outputs, "output %x", i, "\n");
  }
  auto graph = ir::ParseGraph(text + outputs);
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto runner = GraphRunner::Make(*std::move(graph), Target());
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_GT(runner->artifact().report.kernels_after, kSteps / 2);
  auto inputs = RandomInputs(runner->graph(), {}, 1);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  auto want = ir::Evaluate(runner->graph(), *inputs, {});
  ASSERT_TRUE(want.ok()) << want.status();
  for (int runs : {4, 7}) {
    auto got = runner->Run(*inputs, {}, /*unaligned=*/false, runs);
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < want->size(); ++i) EXPECT_EQ(Differ((*got)[i], (*want)[i]), "") << "output " << i;
  }
}

// The operand of the branch is a view, one result passes through, one is the program's.
TEST(CompileGraph, BranchesOnData) {
  if (Target().rfind("cpu:", 0) != 0) return;
  for (const char* condition : {"gt", "lt"}) {
    Report report = CheckText(absl::StrCat(R"(
%x = input user f32[6, 4]
%w = input parameter f32[4, 4]
%one = fill {value = 1.0} : f32[]
%two = fill {value = 2.0} : f32[]
%c = )",
                                           condition, R"((%one, %two)
%t = permute(%x) {dims = [1, 0]}
%r = if(%c, %t, %w) {blocks = {"%t = input user f32[4, 6]\n%w = input user f32[4, 4]\n%m = matmul(%w, %t)\n%e = exp(%m)\noutput %e\noutput %w", "%t = input user f32[4, 6]\n%w = input user f32[4, 4]\n%n = neg(%t)\n%v = add(%w, %w)\noutput %n\noutput %v"}} : f32[4, 6], f32[4, 4]
%y = add(%r, %t)
output %y
output %r.1)"));
    EXPECT_EQ(report.graph_breaks.size(), 0u);  // the source's, which this graph has not
    EXPECT_GE(report.kernels_after, 4);
  }
}

// Doubles a matrix until its first element is large, with a branch in the loop.
TEST(CompileGraph, LoopsOnData) {
  if (Target().rfind("cpu:", 0) != 0) return;
  CheckText(R"(
%x = input user f32[3, 5]
%s = input user f32[5]
%zero = fill {value = 0} : i64[]
%go = fill {value = 1} : bool[]
%a = abs(%x)
%r = while(%go, %a, %zero, %s) {blocks = {"%g = input user bool[]\n%a = input user f32[3, 5]\n%n = input user i64[]\n%s = input user f32[5]\noutput %g", "%g = input user bool[]\n%a = input user f32[3, 5]\n%n = input user i64[]\n%s = input user f32[5]\n%f = slice(%a) {sizes = (1, 1), starts = (0, 0), steps = [1, 1]}\n%e = reshape(%f) {shape = ()}\n%limit = fill {value = 100.0} : f32[]\n%m = lt(%e, %limit)\n%one = fill {value = 1} : i64[]\n%k = add(%n, %one)\n%d = if(%m, %a, %s) {blocks = {\"%a = input user f32[3, 5]\\n%s = input user f32[5]\\n%t = add(%a, %a)\\n%o = fill {value = 0.5} : f32[3, 5]\\n%u = add(%t, %o)\\noutput %u\", \"%a = input user f32[3, 5]\\n%s = input user f32[5]\\n%b = reshape(%s) {shape = (1, 5)}\\n%c = broadcast(%b) {shape = (3, 5)}\\n%t = mul(%a, %c)\\noutput %t\"}} : f32[3, 5]\noutput %m mutates 0\noutput %d mutates 1\noutput %k mutates 2"}} : f32[3, 5], i64[]
output %r
output %r.1)");
}

TEST(CompileGraph, ScansScattersAndSorts) {
  CheckText(R"(
%x = input user f32[3, 17]
%i = input user i64[3, 5]
%u = input user f32[3, 5]
%cs = scan_sum(%x) {dim = 1}
%cm = scan_max(%x) {dim = 0}
%sc = scatter(%x, %i, %u) {dim = 1, reduce = "add"}
%so = sort(%x) {descending = 1, dim = 1}
%r = input user i64[4]
%s = input user f32[3, 4]
%p = put_rows(%x, %r, %s) {dim = 1, reduce = "add"}
output %cs
output %cm
output %sc
output %so
output %so.1
output %p)");
}

// What running a graph of integers says.
absl::Status RunOn(const std::string& text, const std::vector<ir::HostTensor>& inputs) {
  auto graph = ir::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  auto runner = GraphRunner::Make(*std::move(graph), Target());
  EXPECT_TRUE(runner.ok()) << runner.status();
  return runner->Run(inputs, {}).status();
}

ir::HostTensor Ints(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  ir::HostTensor tensor = ir::HostTensor::Zeros(ir::DType::kI64, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.SetInt(static_cast<int64_t>(i), values[i]);
  return tensor;
}

const char* const kIndexed[] = {"take(%x, %i) {dim = 0$}", "gather(%x, %k) {dim = 0$}",
                                "scatter(%x, %k, %u) {dim = 0, reduce = \"add\"$}",
                                "put_rows(%x, %i, %u) {dim = 0, reduce = \"set\"$}"};

TEST(CompileGraph, IndexOutOfRangeIsReported) {
  const ir::HostTensor x = testing::RandomTensor(ir::DType::kF32, {4, 8}, 1);
  const ir::HostTensor u = testing::RandomTensor(ir::DType::kF32, {3, 8}, 2);
  for (const char* op : kIndexed) {
    for (bool from_end : {true, false}) {
      const std::string call = absl::StrReplaceAll(op, {{"$", from_end ? "" : ", from_end = 0"}});
      const std::string text = absl::StrCat(
          "%x = input user f32[4, 8]\n%i = input user i64[3]\n%u = input user f32[3, 8]\n%c = reshape(%i) {shape = (3, "
          "1)}\n"
          "%k = broadcast(%c) {shape = (3, 8)}\n%t = ",
          call, "\noutput %t");
      for (int64_t bad : {int64_t{4}, int64_t{-5}, int64_t{1} << 40, -(int64_t{1} << 40)}) {
        EXPECT_THAT(std::string(RunOn(text, {x, Ints({3}, {0, bad, 1}), u}).message()),
                    ::testing::HasSubstr("OUT_OF_RANGE"))
            << call << " " << bad;
      }
      EXPECT_EQ(RunOn(text, {x, Ints({3}, {0, 3, -1}), u}).ok(), from_end) << call;
      EXPECT_TRUE(RunOn(text, {x, Ints({3}, {0, 3, 2}), u}).ok()) << call;
    }
  }
}

TEST(CompileGraph, DivisionByZeroIsReported) {
  const std::string head = "%x = input user i64[2, 40]\n%y = input user i64[2, 40]\n";
  std::vector<int64_t> ones(80, 1), one_zero = ones;
  one_zero[77] = 0;
  const ir::HostTensor x = Ints({2, 40}, ones), fine = Ints({2, 40}, ones), bad = Ints({2, 40}, one_zero);
  for (const char* op : {"div", "floor_div", "mod", "fmod"}) {
    const std::string divide = absl::StrCat(head, "%q = ", op, "(%x, %y)\n");
    for (const char* rest : {"output %q", "%r = reduce_sum(%q) {dims = [1]}\noutput %r",
                             "%p = permute(%q) {dims = [1, 0]}\noutput %p strides [2, 1]"}) {
      EXPECT_TRUE(RunOn(divide + rest, {x, fine}).ok()) << op << rest;
      const absl::Status failed = RunOn(divide + rest, {x, bad});
      if (!absl::StartsWith(Target(), "cpu")) {
        EXPECT_TRUE(failed.ok()) << op << rest << ": " << failed;  // as in eager
      } else {
        EXPECT_THAT(std::string(failed.message()), ::testing::HasSubstr("divided by zero")) << op << rest;
      }
    }
    // What lies beside a padded tensor is no divisor.
    EXPECT_TRUE(RunOn(divide + "%p = pad(%q) {low = (1, 3), high = (0, 5), value = 7}\noutput %p", {x, fine}).ok())
        << op;
  }
}

// PREHEAT_FUZZ_SEEDS sets how many programs are tried.
TEST(CompileGraph, RandomProgramsAgreeWithTheEvaluator) {
  const char* asked = std::getenv("PREHEAT_FUZZ_SEEDS");
  int count = asked ? std::atoi(asked) : 120;
  const char* first = std::getenv("PREHEAT_FUZZ_FIRST");
  int start = first ? std::atoi(first) : 0;
  for (int seed = start; seed < start + count && !HasFailure(); ++seed) {
    bool symbolic = seed % 3 == 0;
    SCOPED_TRACE("seed " + std::to_string(seed));
    ir::SymbolValues symbols;
    if (symbolic) symbols["d0"] = 1 + seed % 20;
    Check(testing::RandomGraph(seed, 4 + seed % 24, symbolic), symbols, seed);
  }
}

}  // namespace
}  // namespace preheat
