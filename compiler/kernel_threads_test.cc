#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/draft.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"

namespace preheat {
namespace {

Draft DraftOf(const std::string& text, const std::string& least = "") {
  Canonical canonical;
  canonical.graph = *ir::ParseGraph(text);
  canonical.ir_text = ir::Print(canonical.graph);
  CompileOptions options;
  options.target = "cpu:x86-64-v4";
  if (!least.empty()) options.schedules.everywhere = {{"thread_ns", least}};
  auto draft = MakeDraft(canonical, options);
  EXPECT_TRUE(draft.ok()) << draft.status();
  EXPECT_EQ(draft->built.sites.size(), 1u);
  return *std::move(draft);
}

// As many threads as the one kernel of a program may have.
int64_t ThreadsOf(const std::string& text, const std::string& least = "") {
  return DraftOf(text, least).built.sites[0].threads;
}

std::string Pointwise(const std::string& op, int64_t rows) {
  return absl::StrCat("%x = input user f32[", rows, ", 240]\n%s = input user f32[", rows, ", 1]\n",
                      "%b = broadcast(%s) {shape = (", rows, ", 240)}\n%y = ", op, "(%x)\n%z = mul(%y, %b)\noutput %z");
}

// 15,360 numbers are negated while a thread is called; their exponentials are work for two, not for many.
TEST(KernelThreads, WorkIsCountedByWhatIsDone) {
  EXPECT_EQ(ThreadsOf(Pointwise("neg", 64)), 1);
  EXPECT_GE(ThreadsOf(Pointwise("exp", 64)), 2);
  EXPECT_LE(ThreadsOf(Pointwise("exp", 64)), 8);
  EXPECT_GT(ThreadsOf(Pointwise("exp", 6400)), 200);
  EXPECT_GT(ThreadsOf(Pointwise("neg", 64000)), 16);
}

TEST(KernelThreads, TheKnobIsInNanoseconds) {
  const std::string text = Pointwise("exp", 640);
  EXPECT_GT(ThreadsOf(text, "1000"), 4 * ThreadsOf(text, "10000"));
}

// A row is waited for at its sum: rows of 96 take as long as 300 numbers without.
TEST(KernelThreads, FoldsAndJumpsCost) {
  const std::string sum = "%x = input user f32[512, 96]\n%y = reduce_sum(%x) {dims = [1]}\noutput %y";
  EXPECT_GE(ThreadsOf(sum), 2);
  const std::string turned = "%x = input user f32[6, 7, 1200]\n%p = permute(%x) {dims = [2, 1, 0]}\noutput %p";
  const std::string copied = "%x = input user f32[1200, 42] strides [64, 1]\n%y = neg(%x)\noutput %y";
  EXPECT_GE(ThreadsOf(turned), 2);
  EXPECT_EQ(ThreadsOf(copied), 1);
}

// Sums of 24 numbers are three vectors of 8; other loops and lengths are left to the target.
TEST(KernelThreads, ShortSumsUseNarrowVectors) {
  const auto narrow = [](const std::string& text) {
    return absl::StrContains(DraftOf(text).built.sources[0].source, "prefer-vector-width=256");
  };
  const std::string sum = "%x = input user f32[64, N]\n%y = reduce_sum(%x) {dims = [1]}\noutput %y";
  EXPECT_TRUE(narrow(absl::StrReplaceAll(sum, {{"N", "24"}})));
  EXPECT_FALSE(narrow(absl::StrReplaceAll(sum, {{"N", "96"}})));
  EXPECT_FALSE(narrow(absl::StrReplaceAll(Pointwise("neg", 64), {{"240", "24"}})));
}

// Columns of few tiles are cut into more of them where that gives a second thread work.
TEST(KernelThreads, TilesAreCutForThreads) {
  const std::string text = R"(
%x = input user f32[256, 144]
%e = exp(%x)
%r = reduce_sum(%e) {dims = [0]}
output %r)";
  EXPECT_GE(ThreadsOf(text), 2);
}

}  // namespace
}  // namespace preheat
