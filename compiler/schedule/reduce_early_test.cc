#include "compiler/schedule/reduce_early.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ir/parse.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace preheat::schedule {
namespace {

using ::testing::ElementsAre;

// "call", and of regions what they compute.
std::vector<std::string> Steps(const std::string& text) {
  absl::StatusOr<ir::Graph> graph = ir::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  Layouts layouts(*graph);
  absl::StatusOr<Partition> partition = Fuse(*graph, layouts);
  EXPECT_TRUE(partition.ok()) << partition.status();
  EXPECT_TRUE(ReduceEarly(*graph, layouts, *partition).ok());
  std::vector<std::string> steps;
  for (const Step& step : partition->steps)
    steps.push_back(step.region ? std::string(ir::Info(step.region->outputs[0].node->op()).name) : "call");
  return steps;
}

// A value is pooled for a sum behind three more products, the second of which has so many columns.
std::string Pooled(int columns) {
  return absl::StrCat(R"(
%i = input user f32[64, 64]
%t = input parameter f32[64, 64]
%u = input parameter f32[64, 2]
%v = input parameter f32[2, )",
                      columns, R"(]
%w = input parameter f32[)",
                      columns, R"(, 8]
%x = matmul(%i, %t)
%r = reshape(%x) {shape = (64, 8, 8)}
%p = reduce_sum(%r) {dims = [2]}
%a = matmul(%x, %u)
%b = matmul(%a, %v)
%c = matmul(%b, %w)
%s = add(%c, %p)
output %s
)");
}

TEST(ReduceEarly, WhatIsPooledIsNotKept) {
  EXPECT_THAT(Steps(Pooled(64)), ElementsAre("call", "reduce_sum", "call", "call", "call", "add"));
}

// Memory is at its fullest elsewhere: one step less.
TEST(ReduceEarly, NotForNothing) { EXPECT_THAT(Steps(Pooled(2)), ElementsAre("call", "call", "call", "call", "add")); }

}  // namespace
}  // namespace preheat::schedule
