#include "compiler/capture/functionalize.h"

#include "absl/strings/str_join.h"
#include "compiler/capture/check_program.h"
#include "compiler/capture/test_programs.h"
#include "compiler/support/error.h"
#include "gtest/gtest.h"

namespace preheat::capture {
namespace {

// What eager does with such programs is held against values in tests/models; here: the shape of the result.

std::string Ops(const AtenProgram& program) {
  return absl::StrJoin(program.nodes, " ", [](std::string* out, const AtenNode& node) { out->append(node.op); });
}

AtenProgram Functional(ProgramWriter w) {
  absl::Status status = Functionalize(w.program);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(CheckProgram(w.program).ok()) << CheckProgram(w.program);
  return std::move(w.program);
}

std::vector<std::pair<std::string, Argument>> BatchNorm(int x, int mean, int var, bool training) {
  return {{"input", T(x)},           {"weight", None{}},      {"bias", None{}},
          {"running_mean", T(mean)}, {"running_var", T(var)}, {"training", training},
          {"momentum", 0.1},         {"eps", 1e-5},           {"cudnn_enabled", false}};
}

TEST(Functionalize, AnInPlaceOperatorBecomesAValue) {
  ProgramWriter w;
  int x = w.Input({4});
  int y = w.Call("aten.neg.default", {{"self", T(x)}}, {4});
  int r = w.Call("aten.relu_.default", {{"self", T(y)}}, {4});
  int sum = w.Call("aten.add.Tensor", {{"self", T(y)}, {"other", T(r)}}, {4});
  w.Output(sum);
  AtenProgram p = Functional(w);
  EXPECT_EQ(Ops(p), "aten.neg.default aten.relu.default aten.add.Tensor");
  int relu = p.nodes[1].results[0];
  EXPECT_EQ(*p.nodes[2].Find("self"), T(relu));  // a later reader of y sees the new value
  EXPECT_EQ(*p.nodes[2].Find("other"), T(relu));
}

TEST(Functionalize, SliceAssignmentWritesIntoTheInput) {
  ProgramWriter w;
  int x = w.Input({4, 3}), src = w.Input({2, 3});
  int part = w.Call("aten.slice.Tensor", {{"self", T(x)}, {"dim", I(0)}, {"start", I(1)}, {"end", I(3)}}, {2, 3});
  w.Call("aten.copy_.default", {{"self", T(part)}, {"src", T(src)}}, {2, 3});
  w.Output(w.Call("aten.sum.default", {{"self", T(x)}}, {}));
  AtenProgram p = Functional(w);
  EXPECT_EQ(Ops(p), "aten.slice.Tensor aten.copy.default aten.slice_scatter.default aten.sum.default");
  ASSERT_EQ(p.outputs.size(), 2u);
  EXPECT_EQ(p.outputs[0].kind, OutputSpec::Kind::kMutatesInput);
  EXPECT_EQ(p.outputs[0].mutates, 0);
  EXPECT_EQ(p.outputs[0].value, p.nodes[2].results[0]);
  EXPECT_EQ(*p.nodes[3].Find("self"), T(p.outputs[0].value));
}

TEST(Functionalize, ViewsOfAWrittenBaseAreTakenAnew) {
  ProgramWriter w;
  int x = w.Input({4});
  int y = w.Call("aten.neg.default", {{"self", T(x)}}, {4});
  int a = w.Call("aten.slice.Tensor", {{"self", T(y)}, {"dim", I(0)}, {"start", I(0)}, {"end", I(3)}}, {3});
  int b = w.Call("aten.slice.Tensor", {{"self", T(y)}, {"dim", I(0)}, {"start", I(1)}, {"end", I(4)}}, {3});
  w.Call("aten.add_.Tensor", {{"self", T(a)}, {"other", I(1)}}, {3});
  w.Output(b);
  w.Output(y);
  AtenProgram p = Functional(w);
  EXPECT_EQ(Ops(p),
            "aten.neg.default aten.slice.Tensor aten.slice.Tensor aten.add.Tensor aten.slice_scatter.default "
            "aten.slice.Tensor");
  EXPECT_EQ(p.outputs[0].value, p.nodes[5].results[0]);
  EXPECT_EQ(*p.nodes[5].Find("self"), T(p.nodes[4].results[0]));
  EXPECT_EQ(p.outputs[1].aliases_output, 0);  // both share y's memory
}

TEST(Functionalize, ChainsOfViewsAreUndoneFromTheInsideOut) {
  ProgramWriter w;
  int x = w.Input({4, 3});
  int t = w.Call("aten.transpose.int", {{"self", T(x)}, {"dim0", I(0)}, {"dim1", I(1)}}, {3, 4});
  int s = w.Call("aten.select.int", {{"self", T(t)}, {"dim", I(0)}, {"index", I(2)}}, {4});
  int u = w.Call("aten.unsqueeze.default", {{"self", T(s)}, {"dim", I(0)}}, {1, 4});
  w.Call("aten.zero_.default", {{"self", T(u)}}, {1, 4});
  w.Output(x);
  AtenProgram p = Functional(w);
  EXPECT_EQ(Ops(p),
            "aten.transpose.int aten.select.int aten.unsqueeze.default aten.zero.default aten.reshape.default "
            "aten.select_scatter.default aten.transpose.int");
  EXPECT_EQ(p.outputs[0].value, p.nodes[6].results[0]);
  EXPECT_EQ(p.outputs[1].aliases_input, 0);
}

TEST(Functionalize, BatchNormGivesItsStatisticsAndCounter) {
  ProgramWriter w;
  int x = w.Input({8, 3});
  int mean = w.Input({3}, ir::DType::kF32, ir::InputKind::kBuffer),
      var = w.Input({3}, ir::DType::kF32, ir::InputKind::kBuffer);
  int count = w.Input({}, ir::DType::kI64, ir::InputKind::kBuffer);
  w.Call("aten.add_.Tensor", {{"self", T(count)}, {"other", I(1)}}, {}, ir::DType::kI64);
  w.Output(w.Call("aten.batch_norm.default", BatchNorm(x, mean, var, true), {8, 3}));
  AtenProgram p = Functional(w);
  EXPECT_EQ(Ops(p), "aten.add.Tensor aten._native_batch_norm_legit_functional.default");
  EXPECT_EQ(p.nodes[1].results.size(), 5u);
  EXPECT_EQ(p.nodes[1].Find("cudnn_enabled"), nullptr);
  ASSERT_EQ(p.outputs.size(), 4u);
  EXPECT_EQ(p.outputs[0].mutates, 1);
  EXPECT_EQ(p.outputs[0].value, p.nodes[1].results[3]);
  EXPECT_EQ(p.outputs[1].mutates, 2);
  EXPECT_EQ(p.outputs[1].value, p.nodes[1].results[4]);
  EXPECT_EQ(p.outputs[2].mutates, 3);
}

TEST(Functionalize, BatchNormInEvalStaysWhole) {
  ProgramWriter w;
  int x = w.Input({8, 3}), mean = w.Input({3}), var = w.Input({3});
  w.Output(w.Call("aten.batch_norm.default", BatchNorm(x, mean, var, false), {8, 3}));
  AtenProgram p = Functional(w);
  EXPECT_EQ(Ops(p), "aten.batch_norm.default");
  EXPECT_EQ(p.outputs.size(), 1u);
}

TEST(Functionalize, DropoutVanishesInEvalAndStaysInTraining) {
  for (bool train : {false, true}) {
    ProgramWriter w;
    int x = w.Input({4});
    int d = w.Call("aten.dropout.default", {{"input", T(x)}, {"p", 0.5}, {"train", train}}, {4});
    w.Output(w.Call("aten.neg.default", {{"self", T(d)}}, {4}));
    EXPECT_EQ(Ops(Functional(w)), train ? "aten.dropout.default aten.neg.default" : "aten.neg.default");
  }
}

TEST(Functionalize, WritingThroughEvalDropoutWritesItsOperand) {
  ProgramWriter w;
  int x = w.Input({4});
  int y = w.Call("aten.neg.default", {{"self", T(x)}}, {4});
  int d = w.Call("aten.dropout.default", {{"input", T(y)}, {"p", 0.5}, {"train", false}}, {4});
  w.Call("aten.relu_.default", {{"self", T(d)}}, {4});
  w.Output(y);
  AtenProgram p = Functional(w);
  EXPECT_EQ(p.outputs[0].value, p.nodes[1].results[0]);
}

TEST(Functionalize, InPlaceArithmeticRoundsToTheTensorsOwnDtype) {
  ProgramWriter w;
  int x = w.Input({4}, ir::DType::kBF16), y = w.Input({4});
  w.Call("aten.add_.Tensor", {{"self", T(x)}, {"other", T(y)}}, {4}, ir::DType::kBF16);
  AtenProgram p = Functional(w);
  EXPECT_EQ(Ops(p), "aten.add.Tensor aten._to_copy.default");
  EXPECT_EQ(p.values[p.nodes[0].results[0]].type.tensor.dtype, ir::DType::kF32);
  EXPECT_EQ(p.values[p.outputs[0].value].type.tensor.dtype, ir::DType::kBF16);
}

TEST(Functionalize, OutArgumentsAreValues) {
  ProgramWriter w;
  int x = w.Input({4}), y = w.Input({4});
  int buffer = w.Call("aten.empty.memory_format", {{"size", std::vector<ir::Expr>{4}}}, {4});
  w.Call("aten.add.out", {{"self", T(x)}, {"other", T(y)}, {"out", T(buffer)}}, {4});
  w.Output(buffer);
  AtenProgram p = Functional(w);
  EXPECT_EQ(Ops(p), "aten.empty.memory_format aten.add.Tensor");
  EXPECT_EQ(p.outputs[0].value, p.nodes[1].results[0]);
}

TEST(Functionalize, BlocksBecomeValuesAndMayNotWriteOutside) {
  const auto branch = [](bool outside) {
    ProgramWriter then, same;
    const int x = then.Input({4});
    const int y = outside ? x : then.Call("aten.neg.default", {{"self", T(x)}}, {4});
    then.Output(then.Call("aten.relu_.default", {{"self", T(y)}}, {4}));
    same.Output(same.Input({4}));
    ProgramWriter w;
    const int c = w.Input({}, ir::DType::kBool), z = w.Input({4});
    w.Output(w.Control(kIfOp, c, {ValueRef{z}}, {then.program, same.program}, {4}));
    return w;
  };
  AtenProgram p = Functional(branch(false));
  EXPECT_EQ(Ops(p.nodes[0].blocks[0]), "aten.neg.default aten.relu.default");
  ProgramWriter w = branch(true);
  EXPECT_EQ(GetError(Functionalize(w.program)).kind, "unsupported_mutation");

  // The result may be the operand itself: who writes into it might write into both.
  ProgramWriter later = branch(false);
  later.Call("aten.relu_.default", {{"self", T(later.program.nodes[0].results[0])}}, {4});
  EXPECT_EQ(GetError(Functionalize(later.program)).kind, "unsupported_mutation");
}

TEST(Functionalize, RefusesWhatHasNoValueForm) {
  ProgramWriter expands;
  int x = expands.Input({1, 4});
  int wide = expands.Call("aten.expand.default", {{"self", T(x)}, {"size", std::vector<ir::Expr>{3, 4}}}, {3, 4});
  expands.Call("aten.add_.Tensor", {{"self", T(wide)}, {"other", I(1)}}, {3, 4});
  EXPECT_EQ(GetError(Functionalize(expands.program)).kind, "unsupported_mutation");

  ProgramWriter resizes;
  int y = resizes.Input({4});
  resizes.Call("aten.unsqueeze_.default", {{"self", T(y)}, {"dim", I(0)}}, {1, 4});
  EXPECT_EQ(GetError(Functionalize(resizes.program)).kind, "unsupported_mutation");
}

}  // namespace
}  // namespace preheat::capture
