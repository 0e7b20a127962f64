#include "compiler/reference/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "compiler/support/error.h"

namespace preheat::reference {
namespace {

using capture::Argument;
using capture::AtenNode;
using capture::AtenProgram;
using capture::NamedArgument;
using capture::ValueRef;
using ir::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Builds programs value by value.
struct Builder {
  AtenProgram program;

  int Value(DType dtype, std::vector<ir::Expr> shape) {
    capture::AtenValue value;
    value.type.tensor = {dtype, shape};
    value.type.strides = ir::RowMajorStrides(shape);
    program.values.push_back(value);
    return static_cast<int>(program.values.size()) - 1;
  }
  int Input(DType dtype, std::vector<ir::Expr> shape) {
    const int id = Value(dtype, std::move(shape));
    program.inputs.push_back({id});
    return id;
  }
  int Op(const std::string& op, std::vector<NamedArgument> args, DType dtype, std::vector<ir::Expr> shape) {
    const int id = Value(dtype, std::move(shape));
    AtenNode node;
    node.op = op;
    node.args = std::move(args);
    node.results = {id};
    program.nodes.push_back(node);
    return id;
  }
  void Output(int id) {
    capture::OutputSpec spec;
    spec.value = id;
    program.outputs.push_back(spec);
  }
};

HostTensor Floats(std::vector<int64_t> sizes, const std::vector<float>& values) {
  HostTensor t = MakeTensor(DType::kF32, std::move(sizes));
  std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  return t;
}

template <typename T>
std::vector<T> Read(const HostTensor& t) {
  std::vector<T> out(t.bytes.size() / sizeof(T));
  std::memcpy(out.data(), t.bytes.data(), t.bytes.size());
  return out;
}

TEST(Reference, NumbersStandForTensorsAsInPython) {
  Builder b;
  const int x = b.Input(DType::kF32, {3});
  b.Output(b.Op("aten.add.Tensor", {{"self", ValueRef{x}}, {"other", ir::Expr(2)}}, DType::kF32, {3}));
  auto out = RunReference(b.program, {Floats({3}, {1, 2, 3})}, {});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].dtype, DType::kF32);
  EXPECT_THAT(Read<float>((*out)[0]), ElementsAre(3, 4, 5));
}

TEST(Reference, Float64WidensTensorsAndDTypeArguments) {
  Builder b;
  const int x = b.Input(DType::kF32, {1});
  const int third = b.Op("aten.div.Tensor", {{"self", ValueRef{x}}, {"other", ir::Expr(3)}}, DType::kF32, {1});
  b.Output(b.Op("aten._to_copy.default", {{"self", ValueRef{third}}, {"dtype", DType::kF16, true}}, DType::kF16, {1}));
  ReferenceOptions options;
  options.float64 = true;
  auto out = RunReference(b.program, {Floats({1}, {1})}, options);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].dtype, DType::kF64);
  EXPECT_THAT(Read<double>((*out)[0]), ElementsAre(1.0 / 3));
}

TEST(Reference, CreationTakesTheDeclaredTypeNotTheProcessDefault) {
  Builder b;
  b.Output(b.Op("aten.full.default", {{"size", std::vector<ir::Expr>{2}}, {"fill_value", 0.5}}, DType::kBF16, {2}));
  auto out = RunReference(b.program, {}, {});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].dtype, DType::kBF16);
  ReferenceOptions wide;
  wide.float64 = true;
  EXPECT_THAT(Read<double>((*RunReference(b.program, {}, wide))[0]), ElementsAre(0.5, 0.5));
}

TEST(Reference, SizesComeFromTheInputsThatHaveThem) {
  Builder b;
  const ir::Expr n = ir::Expr::Symbol("d0");
  b.program.symbols.push_back({"d0", 1, std::nullopt});
  const int x = b.Input(DType::kF32, {n, 2});
  b.Output(
      b.Op("aten.view.default", {{"self", ValueRef{x}}, {"size", std::vector<ir::Expr>{n * 2}}}, DType::kF32, {n * 2}));
  auto out = RunReference(b.program, {Floats({3, 2}, {1, 2, 3, 4, 5, 6})}, {});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT((*out)[0].sizes, ElementsAre(6));
}

TEST(Reference, ListsOfResultsAndOptionalOperands) {
  Builder b;
  const int x = b.Input(DType::kF32, {2, 4});
  const int index = b.Input(DType::kI64, {2});
  const int left = b.Value(DType::kF32, {2, 2}), right = b.Value(DType::kF32, {2, 2});
  AtenNode split;
  split.op = "aten.split.Tensor";
  split.args = {{"self", ValueRef{x}}, {"split_size", ir::Expr(2)}, {"dim", ir::Expr(1)}};
  split.results = {left, right};
  split.result_is_list = true;
  b.program.nodes.push_back(split);
  const std::vector<std::optional<ValueRef>> indices = {std::nullopt, ValueRef{index}};
  b.Output(b.Op("aten.index.Tensor", {{"self", ValueRef{right}}, {"indices", indices}}, DType::kF32, {2, 2}));
  HostTensor swap = MakeTensor(DType::kI64, {2});
  const int64_t order[] = {1, 0};
  std::memcpy(swap.bytes.data(), order, sizeof(order));
  auto out = RunReference(b.program, {Floats({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}), swap}, {});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(Read<float>((*out)[0]), ElementsAre(3, 2, 7, 6));
}

// Doubles x until its sum is over 20; then negates it or not.
TEST(Reference, WalksControlFlow) {
  const auto call = [](Builder& b, const std::string& op, int a, std::vector<NamedArgument> more, DType dtype,
                       std::vector<ir::Expr> shape) {
    more.insert(more.begin(), {"self", ValueRef{a}});
    return b.Op(op, std::move(more), dtype, std::move(shape));
  };
  Builder body, negate, same;
  const int x = body.Input(DType::kF32, {2});
  const int twice = call(body, "aten.mul.Scalar", x, {{"other", 2.0}}, DType::kF32, {2});
  const int sum = call(body, "aten.sum.default", twice, {}, DType::kF32, {});
  body.Output(call(body, "aten.lt.Scalar", sum, {{"other", 20.0}}, DType::kBool, {}));
  body.Output(twice);
  negate.Output(call(negate, "aten.neg.default", negate.Input(DType::kF32, {2}), {}, DType::kF32, {2}));
  same.Output(same.Input(DType::kF32, {2}));

  Builder b;
  const int go = b.Input(DType::kBool, {}), turn = b.Input(DType::kBool, {}), y = b.Input(DType::kF32, {2});
  const auto control = [&](const char* op, int condition, int operand, std::vector<AtenProgram> blocks) {
    const std::vector<std::optional<ValueRef>> operands = {ValueRef{operand}};
    const int result = b.Op(op, {{"condition", ValueRef{condition}}, {"operands", operands}}, DType::kF32, {2});
    b.program.nodes.back().blocks = std::move(blocks);
    return result;
  };
  b.Output(
      control(capture::kIfOp, turn, control(capture::kWhileOp, go, y, {body.program}), {negate.program, same.program}));
  const auto truth = [](char value) {
    HostTensor t = MakeTensor(DType::kBool, {});
    t.bytes[0] = value;
    return t;
  };
  const auto run = [&](char loop, char branch) {
    auto out = RunReference(b.program, {truth(loop), truth(branch), Floats({2}, {1, 3})}, {});
    EXPECT_TRUE(out.ok()) << out.status();
    return Read<float>((*out)[0]);
  };
  EXPECT_THAT(run(1, 0), ElementsAre(8, 24));
  EXPECT_THAT(run(1, 1), ElementsAre(-8, -24));
  EXPECT_THAT(run(0, 0), ElementsAre(1, 3));
}

TEST(Reference, StridedInputsAreReadAsTheyLie) {
  Builder b;
  const int x = b.Input(DType::kF32, {2, 2});
  b.Output(b.Op("aten.clone.default", {{"self", ValueRef{x}}}, DType::kF32, {2, 2}));
  HostTensor transposed = Floats({2, 2}, {1, 2, 3, 4});
  transposed.strides = {1, 2};
  auto out = RunReference(b.program, {transposed}, {});
  EXPECT_THAT(Read<float>((*out)[0]), ElementsAre(1, 3, 2, 4));
}

TEST(Reference, TheSeedDecidesRandomResults) {
  Builder b;
  b.Output(b.Op("aten.rand.default", {{"size", std::vector<ir::Expr>{4}}}, DType::kF32, {4}));
  ReferenceOptions seven;
  seven.seed = 7;
  EXPECT_EQ((*RunReference(b.program, {}, seven))[0].bytes, (*RunReference(b.program, {}, seven))[0].bytes);
  EXPECT_NE((*RunReference(b.program, {}, seven))[0].bytes, (*RunReference(b.program, {}, {}))[0].bytes);
}

TEST(Reference, ErrorsAreTypedAndNameTheNode) {
  Builder unknown;
  unknown.Output(unknown.Op("aten.no_such_thing.default", {}, DType::kF32, {}));
  auto status = RunReference(unknown.program, {}, {}).status();
  EXPECT_EQ(GetError(status).kind, "unknown_operator");
  EXPECT_THAT(GetError(status).where, HasSubstr("aten.no_such_thing.default"));

  Builder wrong;
  const int x = wrong.Input(DType::kF32, {2}), y = wrong.Input(DType::kF32, {3});
  wrong.Output(wrong.Op("aten.add.Tensor", {{"self", ValueRef{x}}, {"other", ValueRef{y}}}, DType::kF32, {2}));
  status = RunReference(wrong.program, {Floats({2}, {1, 2}), Floats({3}, {1, 2, 3})}, {}).status();
  EXPECT_EQ(GetError(status).kind, "reference_failed");
  EXPECT_THAT(std::string(status.message()), HasSubstr("must match"));

  Builder argument;
  argument.Output(argument.Op("aten.relu.default", {{"nonsense", ir::Expr(1)}}, DType::kF32, {}));
  EXPECT_EQ(GetError(RunReference(argument.program, {}, {}).status()).kind, "malformed_program");
}

TEST(Reference, TimesTheWalk) {
  Builder b;
  const int x = b.Input(DType::kF32, {64, 64});
  b.Output(b.Op("aten.mm.default", {{"self", ValueRef{x}}, {"mat2", ValueRef{x}}}, DType::kF32, {64, 64}));
  auto timed = TimeReference(b.program, {MakeTensor(DType::kF32, {64, 64})}, {}, 3);
  ASSERT_TRUE(timed.ok()) << timed.status();
  EXPECT_GT(timed->median_ms, 0);
  EXPECT_EQ(timed->outputs.size(), 1u);
}

// --- Attention of GPUs, held against a CPU's operator of the same meaning ---

struct Attention {
  Builder b;
  std::vector<int> operands;  // q, k, v and the output's gradient

  Attention() {
    for (int i = 0; i < 4; ++i) operands.push_back(b.Input(DType::kF32, {2, 4, 6, 8}));
  }
  std::vector<NamedArgument> Heads(bool gradient) const {
    std::vector<NamedArgument> args = {
        {"query", ValueRef{operands[0]}}, {"key", ValueRef{operands[1]}}, {"value", ValueRef{operands[2]}}};
    if (gradient) args.insert(args.begin(), {"grad_out", ValueRef{operands[3]}});
    return args;
  }
  std::vector<int> Add(const std::string& op, std::vector<NamedArgument> args,
                       std::vector<std::vector<ir::Expr>> shapes, int results) {
    AtenNode node;
    node.op = "aten._scaled_dot_product_" + op + ".default";
    node.args = std::move(args);
    for (std::vector<ir::Expr>& shape : shapes) node.results.push_back(b.Value(DType::kF32, std::move(shape)));
    std::vector<int> given = node.results;
    node.results.resize(static_cast<size_t>(results), -1);
    b.program.nodes.push_back(node);
    return given;
  }
  // Forward, then backward; both with `more` arguments.
  void Run(const std::string& kernel, const std::vector<ir::Expr>& sums, int forward_results, int backward_results,
           const std::vector<NamedArgument>& more, std::vector<NamedArgument> forward_alone = {},
           std::vector<NamedArgument> backward_alone = {}) {
    std::vector<NamedArgument> forward = Heads(false), backward = Heads(true);
    for (auto* args : {&forward, &backward}) args->insert(args->end(), more.begin(), more.end());
    forward.insert(forward.end(), forward_alone.begin(), forward_alone.end());
    const std::vector<int> made = Add(kernel, forward, {{2, 4, 6, 8}, sums}, forward_results);
    backward.push_back({"out", ValueRef{made[0]}});
    backward.push_back({"logsumexp", ValueRef{made[1]}});
    backward.insert(backward.end(), backward_alone.begin(), backward_alone.end());
    if (kernel == "efficient_attention") backward[0].name = "grad_out_";
    b.Output(made[0]);
    const std::string name = kernel + "_backward";
    for (int id : Add(name, backward, {{2, 4, 6, 8}, {2, 4, 6, 8}, {2, 4, 6, 8}}, backward_results)) b.Output(id);
  }
};

TEST(Reference, AttentionOfGpusIsThatOfCpus) {
  Attention a;
  const std::vector<NamedArgument> causal = {{"dropout_p", 0.0}, {"is_causal", true}};
  const int none = a.b.Value(DType::kI64, {});
  AtenNode zeros;
  zeros.op = "aten.full.default";
  zeros.args = {{"size", std::vector<ir::Expr>{}}, {"fill_value", ir::Expr(0)}};
  zeros.results = {none};
  a.b.program.nodes.push_back(zeros);
  const std::vector<NamedArgument> states = {{"philox_seed", ValueRef{none}}, {"philox_offset", ValueRef{none}}};
  std::vector<NamedArgument> lengths = states, bias = states, mask = states;
  for (const char* name : {"cum_seq_q", "cum_seq_k"}) lengths.push_back({name, capture::None{}});
  for (const char* name : {"max_q", "max_k"}) lengths.push_back({name, ir::Expr(6)});
  bias = lengths, bias.push_back({"attn_bias", capture::None{}});
  mask.push_back({"attn_bias", capture::None{}});
  mask.push_back({"grad_input_mask", std::vector<bool>{true, true, true, false}});
  const std::vector<NamedArgument> wanted = {{"attn_bias", capture::None{}}, {"compute_log_sumexp", true}};
  a.Run("flash_attention_for_cpu", {2, 4, 6}, 2, 3, causal);
  a.Run("cudnn_attention", {2, 4, 6, 1}, 9, 3, causal, wanted, bias);
  a.Run("flash_attention", {2, 4, 6}, 9, 3, causal, {}, lengths);
  a.Run("efficient_attention", {2, 4, 32}, 4, 4, causal, wanted, mask);
  std::vector<HostTensor> inputs;
  for (int i = 0; i < 4; ++i) {
    std::vector<float> values(2 * 4 * 6 * 8);
    for (size_t j = 0; j < values.size(); ++j) values[j] = std::sin(static_cast<float>(7 * j + 100 * i));
    inputs.push_back(Floats({2, 4, 6, 8}, values));
  }
  auto out = RunReference(a.b.program, inputs, {});
  ASSERT_TRUE(out.ok()) << out.status();
  ASSERT_EQ(out->size(), 16U);
  for (size_t i = 4; i < 16; ++i) {
    const std::vector<float> got = Read<float>((*out)[i]), want = Read<float>((*out)[i % 4]);
    for (size_t j = 0; j < got.size(); ++j) ASSERT_NEAR(got[j], want[j], 2e-6) << "result " << i << " at " << j;
  }
}

}  // namespace
}  // namespace preheat::reference
