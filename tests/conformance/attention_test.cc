// Attention in 16-bit floats, which is a GPU's library call.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/conformance/check_graph.h"

namespace preheat {
namespace {

using testing::CheckText;
using testing::Target;

class GpuAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    if (absl::StartsWith(Target(), "cpu")) GTEST_SKIP() << "a CPU's attention is f32: compile_graph_test.cc";
  }
};

// Heads that lie side by side in one projection's rows, as transformers have them, before and behind.
TEST_F(GpuAttention, CausalFromOneProjection) {
  const Report report = CheckText(R"(
%x = input user bf16[2, 40, 3, 4, 16]
%w = input user bf16[64, 8]
%qs = slice(%x) {sizes = (2, 40, 1, 4, 16), starts = (0, 0, 0, 0, 0), steps = [1, 1, 1, 1, 1]}
%ks = slice(%x) {sizes = (2, 40, 1, 4, 16), starts = (0, 0, 1, 0, 0), steps = [1, 1, 1, 1, 1]}
%vs = slice(%x) {sizes = (2, 40, 1, 4, 16), starts = (0, 0, 2, 0, 0), steps = [1, 1, 1, 1, 1]}
%qr = reshape(%qs) {shape = (2, 40, 4, 16)}
%kr = reshape(%ks) {shape = (2, 40, 4, 16)}
%vr = reshape(%vs) {shape = (2, 40, 4, 16)}
%q = permute(%qr) {dims = [0, 2, 1, 3]}
%k = permute(%kr) {dims = [0, 2, 3, 1]}
%v = permute(%vr) {dims = [0, 2, 1, 3]}
%o = fused(%q, %k, %v) {base = "attention", epilogue = {"causal", "softmax", "values"}, scale = 0.25} : bf16[2, 4, 40, 16]
%op = permute(%o) {dims = [0, 2, 1, 3]}
%r = reshape(%op) {shape = (80, 64)}
%y = matmul(%r, %w)
output %y)");
  EXPECT_EQ(report.kernels_after, 2);
}

// Forward and backward, with fewer heads of keys than of queries, one for all, or as many; of any length, and of an
// empty batch.
constexpr char kTraining[] = R"(
symbol n in [2, 512]
symbol b in [0, 16]
%q = input user f16[b, 4, n, 24]
%k = input user f16[b, HEADS, 50, 24]
%v = input user f16[b, HEADS, 50, 24]
%g = input user f16[b, 4, n, 24]
%kt = permute(%k) {dims = [0, 1, 3, 2]}
%fw = fused(%q, %kt, %v) {base = "attention", epilogue = {CAUSAL"softmax", "values"}, scale = 0.3} : f16[b, 4, n, 24], f32[b, 4, n, 1]
%bw = fused(%q, %kt, %v, %g, %fw, %fw.1) {base = "attention_grad", epilogue = {CAUSAL"values", "gradient", "output", "log_sums"}, scale = 0.3} : f16[b, 4, n, 24], f16[b, HEADS, 50, 24], f16[b, HEADS, 50, 24]
output %fw
output %fw.1
output %bw
output %bw.1
output %bw.2)";

TEST_F(GpuAttention, WithItsGradients) {
  for (const int heads : {4, 2, 1}) {
    for (const char* causal : {"\"causal\", ", ""}) {
      const std::string text = absl::StrReplaceAll(kTraining, {{"HEADS", absl::StrCat(heads)}, {"CAUSAL", causal}});
      for (const int64_t n : {37, 64}) {
        EXPECT_EQ(CheckText(text, {{"b", 2}, {"n", n}}).kernels_after, 2);  // nothing is copied
      }
      CheckText(text, {{"b", 0}, {"n", 3}});
    }
  }
}

// Masks of each kind that is added to scores: for all heads, for each, for all rows (padding).
TEST_F(GpuAttention, BehindAMask) {
  for (const char* kind : {"2, 1, 40, 52", "2, 4, 40, 52", "2, 1, 1, 52", "1, 1, 40, 52"}) {
    CheckText(absl::StrReplaceAll(R"(
%q = input user bf16[2, 4, 40, 16]
%k = input user bf16[2, 4, 52, 16]
%v = input user bf16[2, 4, 52, 16]
%g = input user bf16[2, 4, 40, 16]
%m = input user bf16[KIND]
%mb = broadcast(%m) {shape = (2, 4, 40, 52)}
%kt = permute(%k) {dims = [0, 1, 3, 2]}
%fw = fused(%q, %kt, %mb, %v) {base = "attention", epilogue = {"mask", "softmax", "values"}, scale = 0.25} : bf16[2, 4, 40, 16], f32[2, 4, 40, 1]
%bw = fused(%q, %kt, %mb, %v, %g, %fw, %fw.1) {base = "attention_grad", epilogue = {"mask", "values", "gradient", "output", "log_sums"}, scale = 0.25} : bf16[2, 4, 40, 16], bf16[2, 4, 52, 16], bf16[2, 4, 52, 16]
output %fw
output %fw.1
output %bw
output %bw.1
output %bw.2)",
                                  {{"KIND", kind}}));
  }
}

// Rows across memory, rows that start between aligned addresses, a result whose rows lie across memory: copied.
TEST_F(GpuAttention, RowsThatLieBadly) {
  const Report report = CheckText(R"(
%x = input user bf16[1, 2, 16, 33]
%y = input user bf16[1, 2, 20, 17]
%v = input user bf16[1, 2, 20, 16]
%xs = slice(%x) {sizes = (1, 2, 16, 32), starts = (0, 0, 0, 1), steps = [1, 1, 1, 1]}
%q = permute(%xs) {dims = [0, 1, 3, 2]}
%ys = slice(%y) {sizes = (1, 2, 20, 16), starts = (0, 0, 0, 1), steps = [1, 1, 1, 1]}
%k = permute(%ys) {dims = [0, 1, 3, 2]}
%o = fused(%q, %k, %v) {base = "attention", epilogue = {"softmax", "values"}, scale = 0.25} : bf16[1, 2, 32, 16]
output %o strides [1024, 512, 1, 32])");
  EXPECT_EQ(report.kernels_after, 4);
}

// What a projection's gradient reads: gradients of heads joined, then turned, in blocks of which the last are smaller.
TEST_F(GpuAttention, JoinedHeadsTurned) {
  for (const char* type : {"bf16", "f32"}) {
    CheckText(absl::StrReplaceAll(R"(
symbol n in [2, 512]
%q = input user T[2, 4, n, 80]
%k = input user T[2, 2, n, 80]
%v = input user T[2, 2, n, 80]
%j = concat(%q, %k, %v) {dim = 1}
%t = permute(%j) {dims = [1, 3, 0, 2]}
%r = reshape(%t) {shape = (8, 80, 2*n)}
output %r)",
                                  {{"T[", absl::StrCat(type, "[")}}),
              {{"n", 77}});
  }
}

}  // namespace
}  // namespace preheat
