// Indices that no tensor has, for each operator that takes indices: the run says OUT_OF_RANGE where eager refuses them,
// and no byte beside a tensor is touched. Tensors lie between pages that nobody may touch (GraphRunner), so that a
// stray read or write of the very kernels that users run ends the test.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "kernels/runtime/preheat_runtime.h"
#include "tests/conformance/graph_runner.h"
#include "tests/eager_fuzz/random_program.h"

namespace preheat {
namespace {

using capture::Argument;
using capture::NamedArgument;
using capture::ValueRef;
using ir::DType;
using ir::Expr;
using ir::HostTensor;
using Shape = std::vector<Expr>;

constexpr int64_t kRows = 16, kColumns = 32;  // whole cache lines of every dtype

// One operator: its arguments are made by `call` from the program under construction.
struct Program {
  capture::AtenProgram program;
  std::vector<HostTensor> inputs;
  size_t index_input = 0;
  int64_t bound = 0;  // of the indices

  int Value(const Shape& shape, DType dtype) {
    capture::AtenValue value;
    value.type.tensor = {dtype, shape};
    value.type.strides = ir::RowMajorStrides(shape);
    program.values.push_back(std::move(value));
    return static_cast<int>(program.values.size()) - 1;
  }
  Argument Input(const Shape& shape, DType dtype = DType::kF32) {
    program.inputs.push_back({.value = Value(shape, dtype)});
    inputs.push_back(testing::RandomTensor(dtype, *ir::ConcreteShape(shape, {}), inputs.size()));
    return ValueRef{program.inputs.back().value};
  }
  // The indices: different valid ones.
  Argument Index(const Shape& shape, int64_t limit, DType dtype = DType::kI64) {
    index_input = inputs.size();
    bound = limit;
    Argument argument = Input(shape, dtype);
    HostTensor& tensor = inputs.back();
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor.SetInt(i, (i * 5 + 1) % limit);
    return argument;
  }
  void Call(const std::string& op, std::vector<NamedArgument> args, const std::vector<Shape>& results,
            DType dtype = DType::kF32) {
    capture::AtenNode node;
    node.op = op;
    node.args = std::move(args);
    for (const Shape& shape : results) node.results.push_back(Value(shape, dtype));
    program.nodes.push_back(node);
    program.outputs.push_back({.value = node.results[0]});
  }
};

struct Case {
  std::string name;
  void (*make)(Program& p);
};

NamedArgument A(std::string name, Argument value) { return {std::move(name), std::move(value), false}; }
NamedArgument K(std::string name, Argument value) { return {std::move(name), std::move(value), true}; }
Argument Int(int64_t v) { return Expr(v); }
Argument List(std::vector<std::optional<ValueRef>> refs) { return refs; }

void Select(Program& p, DType index) {
  Argument x = p.Input({kRows, kColumns}), at = p.Index({8}, kRows, index);
  p.Call("aten.index_select.default", {A("self", x), A("dim", Int(0)), A("index", at)}, {{8, kColumns}});
}
void Embed(Program& p, DType index) {
  Argument x = p.Input({kRows, kColumns}), at = p.Index({2, 4}, kRows, index);
  p.Call("aten.embedding.default", {A("weight", x), A("indices", at)}, {{2, 4, kColumns}});
}
void Scatter(Program& p, const std::string& reduce) {
  Argument x = p.Input({kRows, kColumns}), at = p.Index({4, kColumns}, kRows), src = p.Input({4, kColumns});
  p.Call("aten.scatter_reduce.two",
         {A("self", x), A("dim", Int(0)), A("index", at), A("src", src), A("reduce", reduce), K("include_self", true)},
         {{kRows, kColumns}});
}

const Case kCases[] = {
    {"index_select", [](Program& p) { Select(p, DType::kI64); }},
    {"index_select_i32", [](Program& p) { Select(p, DType::kI32); }},
    {"index_select_inner",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({8}, kColumns);
       p.Call("aten.index_select.default", {A("self", x), A("dim", Int(1)), A("index", at)}, {{kRows, 8}});
     }},
    {"embedding", [](Program& p) { Embed(p, DType::kI64); }},
    {"embedding_i32", [](Program& p) { Embed(p, DType::kI32); }},
    {"gather",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({kRows, 4}, kColumns);
       p.Call("aten.gather.default", {A("self", x), A("dim", Int(1)), A("index", at)}, {{kRows, 4}});
     }},
    {"take_along_dim",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({4, kColumns}, kRows);
       p.Call("aten.take_along_dim.default", {A("self", x), A("indices", at), A("dim", Int(0))}, {{4, kColumns}});
     }},
    {"take",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({8}, kRows * kColumns);
       p.Call("aten.take.default", {A("self", x), A("index", at)}, {{8}});
     }},
    {"index",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({8}, kRows);
       p.Call("aten.index.Tensor", {A("self", x), A("indices", List({std::get<ValueRef>(at)}))}, {{8, kColumns}});
     }},
    {"index_second",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({8}, kColumns);
       p.Call("aten.index.Tensor", {A("self", x), A("indices", List({std::nullopt, std::get<ValueRef>(at)}))},
              {{kRows, 8}});
     }},
    {"index_put",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({8}, kRows), src = p.Input({8, kColumns});
       p.Call("aten.index_put.default",
              {A("self", x), A("indices", List({std::get<ValueRef>(at)})), A("values", src), A("accumulate", false)},
              {{kRows, kColumns}});
     }},
    {"index_put_accumulate",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({8}, kRows), src = p.Input({8, kColumns});
       p.Call("aten.index_put.default",
              {A("self", x), A("indices", List({std::get<ValueRef>(at)})), A("values", src), A("accumulate", true)},
              {{kRows, kColumns}});
     }},
    {"index_add",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({8}, kRows), src = p.Input({8, kColumns});
       p.Call("aten.index_add.default", {A("self", x), A("dim", Int(0)), A("index", at), A("source", src)},
              {{kRows, kColumns}});
     }},
    {"index_copy",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({8}, kRows), src = p.Input({8, kColumns});
       p.Call("aten.index_copy.default", {A("self", x), A("dim", Int(0)), A("index", at), A("source", src)},
              {{kRows, kColumns}});
     }},
    {"index_fill",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({8}, kColumns);
       p.Call("aten.index_fill.int_Scalar", {A("self", x), A("dim", Int(1)), A("index", at), A("value", 0.5)},
              {{kRows, kColumns}});
     }},
    {"index_reduce",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({8}, kRows), src = p.Input({8, kColumns});
       p.Call("aten.index_reduce.default",
              {A("self", x), A("dim", Int(0)), A("index", at), A("source", src), A("reduce", std::string("amax")),
               K("include_self", true)},
              {{kRows, kColumns}});
     }},
    {"scatter",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({4, kColumns}, kRows), src = p.Input({4, kColumns});
       p.Call("aten.scatter.src", {A("self", x), A("dim", Int(0)), A("index", at), A("src", src)}, {{kRows, kColumns}});
     }},
    {"scatter_value",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({kRows, 4}, kColumns);
       p.Call("aten.scatter.value", {A("self", x), A("dim", Int(1)), A("index", at), A("value", 0.5)},
              {{kRows, kColumns}});
     }},
    {"scatter_add",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({4, kColumns}, kRows), src = p.Input({4, kColumns});
       p.Call("aten.scatter_add.default", {A("self", x), A("dim", Int(0)), A("index", at), A("src", src)},
              {{kRows, kColumns}});
     }},
    {"scatter_sum", [](Program& p) { Scatter(p, "sum"); }},
    {"scatter_prod", [](Program& p) { Scatter(p, "prod"); }},
    {"scatter_amax", [](Program& p) { Scatter(p, "amax"); }},
    {"scatter_mean", [](Program& p) { Scatter(p, "mean"); }},
    {"put",
     [](Program& p) {
       Argument x = p.Input({kRows, kColumns}), at = p.Index({8}, kRows * kColumns), src = p.Input({8});
       p.Call("aten.put.default", {A("self", x), A("index", at), A("source", src), A("accumulate", true)},
              {{kRows, kColumns}});
     }},
    {"embedding_dense_backward",
     [](Program& p) {
       Argument grad = p.Input({8, kColumns}), at = p.Index({8}, kRows);
       p.Call("aten.embedding_dense_backward.default",
              {A("grad_output", grad), A("indices", at), A("num_weights", Int(kRows)), A("padding_idx", Int(-1)),
               A("scale_grad_by_freq", false)},
              {{kRows, kColumns}});
     }},
    {"nll_loss",
     [](Program& p) {
       Argument x = p.Input({8, kColumns}), at = p.Index({8}, kColumns);
       p.Call("aten.nll_loss_forward.default",
              {A("self", x), A("target", at), A("weight", capture::None{}), A("reduction", Int(1)),
               A("ignore_index", Int(-100))},
              {{}, {}});
     }},
};

class IndexBounds : public ::testing::TestWithParam<Case> {};

absl::StatusOr<HostTensor> RunOurs(const Program& p, const testing::GraphRunner& runner) {
  auto outputs = runner.Run(p.inputs, {});
  if (!outputs.ok()) return outputs.status();
  return (*outputs)[0];
}

TEST_P(IndexBounds, RightOrOutOfRange) {
  Program p;
  GetParam().make(p);
  CompileOptions options;
  options.target = preheat_host_target();
  auto canonical = Canonicalize(p.program, {}, options);
  ASSERT_TRUE(canonical.ok()) << canonical.status();
  auto artifact = Compile(*canonical, options);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  ASSERT_TRUE(artifact->report.extern_calls.empty()) << "left to torch";
  auto runner = testing::GraphRunner::Of(std::move(canonical->graph), *std::move(artifact));
  HostTensor& index = p.inputs[p.index_input];
  const int64_t last = index.elements() - 1;
  for (int64_t at : {int64_t{0}, last / 2, last}) {
    const int64_t valid = index.Int(at);
    auto fine = RunOurs(p, runner);
    ASSERT_TRUE(fine.ok()) << fine.status();
    auto eager = testing::RunEager(p.program, p.inputs, {}, false);
    ASSERT_TRUE(eager.ok()) << eager.status();
    EXPECT_EQ(testing::Differ(*fine, (*eager)[0]), "") << "valid indices";
    // From the end where eager's operator takes that. A gradient's index is what the forward operator has taken.
    const bool gradient = p.program.nodes[0].op == "aten.embedding_dense_backward.default";
    index.SetInt(at, -1);
    eager = testing::RunEager(p.program, p.inputs, {}, false);
    auto got = RunOurs(p, runner);
    ASSERT_TRUE(gradient || got.ok() == eager.ok()) << "-1 at " << at << ": " << got.status() << eager.status();
    if (got.ok() && !gradient) {
      EXPECT_EQ(testing::Differ(*got, (*eager)[0]), "") << "-1 at " << at;
    } else if (!gradient) {
      EXPECT_THAT(got.status().message(), ::testing::HasSubstr("OUT_OF_RANGE")) << "-1 at " << at;
    }
    for (int64_t bad : {p.bound, -p.bound - 1, int64_t{1} << 40, -(int64_t{1} << 40), INT64_MAX, INT64_MIN}) {
      const bool fits = index.dtype == DType::kI64 || bad == static_cast<int32_t>(bad);
      if (!fits) continue;
      index.SetInt(at, bad);
      got = RunOurs(p, runner);
      ASSERT_FALSE(got.ok()) << bad << " at " << at << " was taken";
      EXPECT_THAT(got.status().message(), ::testing::HasSubstr("OUT_OF_RANGE")) << bad << " at " << at;
    }
    index.SetInt(at, valid);
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, IndexBounds, ::testing::ValuesIn(kCases),
                         [](const ::testing::TestParamInfo<Case>& info) { return info.param.name; });

}  // namespace
}  // namespace preheat
