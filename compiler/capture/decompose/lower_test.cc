#include "compiler/capture/decompose/lower.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "compiler/capture/decompose/extern_call.h"
#include "compiler/capture/test_programs.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace preheat::decompose {
namespace {

// Values are held against eager's in tests/models; here: what becomes of what cannot be lowered.

using capture::Argument;
using capture::ProgramWriter;
using capture::T;
using ir::DType;
using ir::Expr;
using testing::HasSubstr;
using testing::Not;

std::string Lowered(const ProgramWriter& w, const LowerOptions& options = {}) {
  absl::StatusOr<ir::Graph> graph = Lower(w.program, options);
  if (!graph.ok()) return GetError(graph.status()).kind;
  EXPECT_TRUE(ir::Verify(*graph).ok()) << ir::Verify(*graph);
  return ir::Print(*graph);
}

TEST(Lower, KeepsTheBoundary) {
  ProgramWriter w;
  w.program.symbols = {{"d0", 1, 64}};
  int x = w.Input({Expr::Symbol("d0"), 4}), bias = w.Input({4}, DType::kF32, ir::InputKind::kParameter);
  w.program.inputs[1].frozen = true;
  w.Output(w.Call("aten.add.Tensor", {{"self", T(x)}, {"other", T(bias)}}, {Expr::Symbol("d0"), 4}));
  w.Output(-1);
  std::string text = Lowered(w);
  EXPECT_THAT(text, HasSubstr("symbol d0 in [1, 64]"));
  EXPECT_THAT(text, HasSubstr("parameter f32[4] strides [1] align 16 frozen"));
  EXPECT_THAT(text, HasSubstr("add("));
}

TEST(Lower, AnUnknownOperatorIsAnExternCall) {
  ProgramWriter w;
  int x = w.Input({4});
  w.Output(w.Call("aten.made_up.default", {{"self", T(x)}}, {4}));
  EXPECT_THAT(Lowered(w), HasSubstr("extern(%0)"));
  EXPECT_EQ(Lowered(w, {.strict = true, .exclude = {}}), "unimplemented");
}

// Stored as torch makes them: what follows looks at their memory as it is.
TEST(Lower, AnExternCallsResultsKeepTheirMemoryOrder) {
  const auto lowered = [](std::vector<Expr> sizes, std::vector<Expr> strides) {
    ProgramWriter w;
    int x = w.Input({4});
    int made = w.Call("aten.made_up.default", {{"self", T(x)}}, std::move(sizes));
    w.program.values[made].type.strides = std::move(strides);
    w.Output(made);
    return Lowered(w);
  };
  EXPECT_THAT(lowered({2, 4, 8, 16}, {512, 16, 64, 1}), HasSubstr("orders = [0, 2, 1, 3]"));
  EXPECT_THAT(lowered({2, 3, 1, 5}, {15, 1, 15, 3}), HasSubstr("orders = [0, 3, 1, 2]"));
  EXPECT_THAT(lowered({2, 3, 1, 5}, {15, 5, 7, 1}), Not(HasSubstr("orders")));  // one line may have any stride
  EXPECT_THAT(lowered({2, 3}, {6, 2}), Not(HasSubstr("orders")));               // gaps
  EXPECT_THAT(lowered({2, 3}, {0, 1}), Not(HasSubstr("orders")));               // overlaps
}

TEST(Lower, GradientsOfMaxPoolingAreGatheredOnAGpu) {
  const auto lowered = [](const char* device, int64_t dilation) {
    ProgramWriter w;
    const int g = w.Input({2, 3, 4, 5}), x = w.Input({2, 3, 8, 10}), at = w.Input({2, 3, 4, 5}, DType::kI64);
    w.program.values[x].type.device_type = device;
    const auto pair = [](int64_t n) { return std::vector<Expr>{n, n}; };
    w.Output(w.Call("aten.max_pool2d_with_indices_backward.default",
                    {{"grad_output", T(g)},
                     {"self", T(x)},
                     {"kernel_size", pair(3)},
                     {"stride", pair(2)},
                     {"padding", pair(1)},
                     {"dilation", pair(dilation)},
                     {"ceil_mode", false},
                     {"indices", T(at)}},
                    {2, 3, 8, 10}));
    return Lowered(w);
  };
  EXPECT_THAT(lowered("cpu", 1), HasSubstr("scatter("));
  EXPECT_THAT(lowered("cuda", 2), HasSubstr("scatter("));
  EXPECT_THAT(lowered("cuda", 1), Not(HasSubstr("scatter(")));
}

// GPUs and CPUs declare them apart.
TEST(Lower, SecondResultsMayBeDeclaredEmpty) {
  const auto lowered = [](const char* op, std::vector<Expr> second) {
    ProgramWriter w;
    const int x = w.Input({2, 3, 4}), mean = w.Input({3}), variance = w.Input({3});
    const bool norm = std::string(op).find("norm") != std::string::npos;
    const int out =
        norm ? w.Call(op, {{"input", T(x)}, {"running_mean", T(mean)}, {"running_var", T(variance)}}, {2, 3, 4})
             : w.Call(op, {{"self", T(x)}}, {2, 3, 4});
    w.program.nodes.back().results.push_back(w.Value(std::move(second)));
    w.Output(out);
    w.Output(w.program.nodes.back().results[1]);
    return Lowered(w);
  };
  EXPECT_THAT(lowered("aten.log_sigmoid_forward.default", {2, 3, 4}), Not(HasSubstr("f32[0]")));
  EXPECT_THAT(lowered("aten.log_sigmoid_forward.default", {0}), HasSubstr("f32[0]"));
  EXPECT_THAT(lowered("aten._native_batch_norm_legit_no_training.default", {0}), HasSubstr("f32[0]"));
  EXPECT_THAT(lowered("aten._native_batch_norm_legit_no_training.default", {3}), HasSubstr("output %1 strides [1]"));
}

TEST(Lower, WhatAddressesMemoryIsNativeOrAnError) {
  auto strided = [](std::vector<Expr> strides, int64_t offset) {
    ProgramWriter w;
    int x = w.Input({4, 4});
    w.program.values[x].type.strides = std::move(strides);
    w.Output(w.Call("aten.as_strided.default",
                    {{"self", T(x)},
                     {"size", std::vector<Expr>{2}},
                     {"stride", std::vector<Expr>{5}},
                     {"storage_offset", capture::I(offset)}},
                    {2}));
    return Lowered(w);
  };
  EXPECT_THAT(strided({4, 1}, 10), HasSubstr("take("));
  EXPECT_THAT(strided({1, 4}, 10), HasSubstr("take("));
  EXPECT_EQ(strided({4, 1}, 11), "unsupported_strides");  // one element beyond the last
  EXPECT_EQ(strided({8, 1}, 0), "unsupported_strides");   // what lies between the rows is not in the program
  EXPECT_EQ(strided({0, 1}, 0), "unsupported_strides");
}

TEST(Lower, ExcludedOperatorsAreExternCalls) {
  ProgramWriter w;
  int x = w.Input({4});
  w.Output(w.Call("aten.gelu.default", {{"self", T(x)}}, {4}));
  EXPECT_THAT(Lowered(w), testing::Not(HasSubstr("extern")));
  EXPECT_THAT(Lowered(w, {.strict = false, .exclude = {"aten.gelu"}}), HasSubstr("extern(%0)"));
}

TEST(Lower, RandomAndComplexFormsAreExternCalls) {
  ProgramWriter w;
  int x = w.Input({4}), z = w.Input({4}, DType::kC64);
  w.Output(w.Call("aten.dropout.default", {{"input", T(x)}, {"p", 0.5}, {"train", true}}, {4}));
  w.Output(w.Call("aten.add.Tensor", {{"self", T(z)}, {"other", T(z)}}, {4}, DType::kC64));
  std::string text = Lowered(w);
  EXPECT_THAT(text, HasSubstr("aten.dropout.default"));
  EXPECT_THAT(text, HasSubstr("aten.add.Tensor"));
}

TEST(Lower, ADeclaredTypeThatIsNotTheOperatorsIsRefused) {
  ProgramWriter shape;
  int x = shape.Input({4});
  shape.Output(shape.Call("aten.unsqueeze.default", {{"self", T(x)}, {"dim", capture::I(0)}}, {4, 1}));
  EXPECT_THAT(Lowered(shape), HasSubstr("reshape"));  // declared shapes steer views: the elements are the same

  ProgramWriter sum;
  int y = sum.Input({3, 4});
  sum.Output(sum.Call("aten.permute.default", {{"self", T(y)}, {"dims", std::vector<Expr>{1, 0}}}, {3, 4}));
  EXPECT_EQ(Lowered(sum), "type_mismatch");
}

TEST(Lower, NodesThatNothingUsesAreLeftOut) {
  ProgramWriter w;
  int x = w.Input({4});
  w.Call("aten.made_up.default", {{"self", T(x)}}, {4});
  w.Call("mine.observe.default", {{"self", T(x)}}, {4});
  w.Output(w.Call("aten.neg.default", {{"self", T(x)}}, {4}));
  std::string text = Lowered(w);
  EXPECT_THAT(text, testing::Not(HasSubstr("made_up")));
  EXPECT_THAT(text, HasSubstr("mine.observe"));  // may have effects
}

// A row through a layer norm without weights.
std::vector<double> Normalized(const std::vector<double>& row) {
  const auto n = static_cast<int64_t>(row.size());
  ProgramWriter w;
  int x = w.Input({1, n});
  w.Output(w.Call("aten.layer_norm.default", {{"input", T(x)}, {"normalized_shape", std::vector<Expr>{n}}}, {1, n}));
  absl::StatusOr<ir::Graph> graph = Lower(w.program, {.strict = true, .exclude = {}});
  if (!graph.ok()) return {};
  ir::HostTensor input = ir::HostTensor::Zeros(DType::kF32, {1, n});
  for (int64_t i = 0; i < n; ++i) input.SetFloat(i, row[i]);
  auto result = ir::Evaluate(*graph, {input}, {});
  std::vector<double> values;
  for (int64_t i = 0; result.ok() && i < n; ++i) values.push_back((*result)[0].Float(i));
  return values;
}

TEST(Lower, NormsTakeNoHarmFromAMeanThatIsRounded) {
  // The mean lies between two floats: rounded it is off by a fifth of the deviation.
  std::vector<double> row;
  for (int i = 0; i < 8; ++i) row.push_back(100000 + i / 128.0);
  const double deviation = std::sqrt(5.25 / (128 * 128) + 1e-5);
  std::vector<double> normalized = Normalized(row);
  ASSERT_EQ(normalized.size(), row.size());
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(normalized[i], (i - 3.5) / 128 / deviation, 1e-6);
  EXPECT_THAT(Normalized(std::vector<double>(7, 1000.1)), testing::Each(testing::DoubleNear(0, 1e-3)));  // no NaN
  EXPECT_THAT(Normalized({3e30, 1e30, 2.5e30}), testing::Each(0.0));  // the variance is infinite, as in eager
}

// The square root of what a product of inputs of that dtype is in f32.
std::string RootOf(DType dtype) {
  ProgramWriter w;
  int x = w.Input({4}, dtype), y = w.Call("aten.mul.Tensor", {{"self", T(x)}, {"other", T(x)}}, {4}, dtype);
  int f = w.Call("aten._to_copy.default", {{"self", T(y)}, {"dtype", DType::kF32}}, {4}, DType::kF32);
  w.Output(w.Call("aten.sqrt.default", {{"self", T(f)}}, {4}, DType::kF32));
  return Lowered(w);
}

// Eager's vector square root is not the nearest float on every machine: where bits are compared it is eager's own.
TEST(Lower, RootsOfIntegersAreEagersOwn) {
  EXPECT_THAT(RootOf(DType::kI64), HasSubstr("aten.sqrt.default"));
  EXPECT_THAT(RootOf(DType::kF32), HasSubstr("sqrt("));
  EXPECT_THAT(RootOf(DType::kF32), Not(HasSubstr("aten.sqrt")));
  EXPECT_THAT(RootOf(DType::kBool), Not(HasSubstr("aten.sqrt")));  // 0 and 1 are their own
}

// 1 / deviation of the channels -k and k, k from 1 on, as a batch norm keeps it for its gradient.
std::vector<float> KeptDeviations(int64_t channels, bool wide) {
  ProgramWriter w;
  int x = w.Input({2, channels});
  w.Call("aten._native_batch_norm_legit.no_stats",
         {{"input", T(x)}, {"training", true}, {"momentum", 0.1}, {"eps", 1e-5}}, {2, channels});
  for (int i = 0; i < 2; ++i) {
    const int kept = w.Value({channels});
    w.program.nodes.back().results.push_back(kept);
  }
  w.Output(w.program.nodes.back().results[2]);
  LowerOptions options;
  options.strict = true;
  options.wide = wide;
  absl::StatusOr<ir::Graph> graph = Lower(w.program, options);
  if (!graph.ok()) return {};
  ir::HostTensor input = ir::HostTensor::Zeros(DType::kF32, {2, channels});
  for (int64_t k = 0; k < 2 * channels; ++k) {
    input.SetFloat(k, static_cast<double>(k < channels ? -k - 1 : k - channels + 1));
  }
  auto result = ir::Evaluate(*graph, {input}, {});
  std::vector<float> values;
  for (int64_t k = 0; result.ok() && k < channels; ++k) values.push_back(static_cast<float>((*result)[0].Float(k)));
  return values;
}

TEST(Lower, WhatIsOneNumberAChannelIsRoundedOnce) {
  constexpr int kChannels = 64;
  std::vector<float> nearest;
  for (double k = 1; k <= kChannels; ++k) nearest.push_back(static_cast<float>(1 / std::sqrt(k * k + 1e-5)));
  EXPECT_EQ(KeptDeviations(kChannels, true), nearest);
  EXPECT_NE(KeptDeviations(kChannels, false), nearest);
}

// The mean that a batch norm of one channel keeps.
double KeptMean(const ir::HostTensor& x) {
  ProgramWriter w;
  const int input = w.Input({1, 1, x.elements()});
  w.Call("aten._native_batch_norm_legit.no_stats",
         {{"input", T(input)}, {"training", true}, {"momentum", 0.1}, {"eps", 1e-6}}, {1, 1, x.elements()});
  for (int i = 0; i < 2; ++i) {
    const int kept = w.Value({1});
    w.program.nodes.back().results.push_back(kept);
  }
  w.Output(w.program.nodes.back().results[1]);
  LowerOptions options;
  options.strict = true;
  options.wide = true;
  return (*ir::Evaluate(*Lower(w.program, options), {x}, {}))[0].Float(0);
}

// Standardized filters are added up under images of one sign: what their mean is off by is off in every product. The
// mean of differences from a rounded mean was 1e-8 deviations off near 0; far from it, it is the sum that is.
TEST(Lower, MeansAreNearFromZeroToFarFromIt) {
  std::mt19937 random(1);
  for (double far : {0.0, 0.1, 0.5, 1.5, 1000.0}) {
    std::uniform_real_distribution<double> uniform(far - 1, far + 1);
    for (int round = 0; round < 8; ++round) {
      ir::HostTensor x = ir::HostTensor::Zeros(DType::kF32, {1, 1, 4608});
      double sum = 0;
      for (int64_t i = 0; i < x.elements(); ++i) {
        x.SetFloat(i, uniform(random));
        sum += x.Float(i);
      }
      const double mean = sum / static_cast<double>(x.elements());
      EXPECT_NEAR(KeptMean(x), mean, 2.5e-9 + std::abs(mean) * 0x1p-23) << far;
    }
  }
}

TEST(ExternCall, WritesEveryKindOfArgument) {
  capture::AtenNode node{.op = "aten.made_up.default", .args = {}, .results = {5, -1}};
  auto add = [&](const char* name, Argument value) {
    node.args.push_back({.name = name, .value = std::move(value), .keyword = false});
  };
  add("a", T(7));
  add("b", std::vector<std::optional<capture::ValueRef>>{capture::ValueRef{3}, std::nullopt, capture::ValueRef{7}});
  add("c", Expr::Symbol("d0") * 2);
  add("d", 0.5);
  add("e", std::vector<Expr>{1, Expr::Symbol("d0")});
  add("f", DType::kBF16);
  add("g", capture::None{});
  add("h", true);
  node.args.back().keyword = true;
  ExternCall call = WriteExternCall(node);
  EXPECT_EQ(call.operands, (std::vector<int>{7, 3}));
  EXPECT_EQ(call.json,
            R"({"op":"aten.made_up.default","args":[{"n":"a","v":{"t":0}},{"n":"b","v":{"ts":[1,null,0]}},)"
            R"({"n":"c","v":{"e":"2*d0"}},{"n":"d","v":{"f":"0.5"}},{"n":"e","v":{"is":[1,{"e":"d0"}]}},)"
            R"({"n":"f","v":{"dtype":"bf16"}},{"n":"g","v":null},{"n":"h","v":true,"k":1}],"list":false,"none":[1]})");
}

}  // namespace
}  // namespace preheat::decompose
