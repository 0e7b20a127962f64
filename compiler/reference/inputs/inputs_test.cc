#include "compiler/reference/inputs/inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "compiler/support/digest.h"
#include "compiler/support/error.h"

namespace preheat::reference {
namespace {

using capture::AtenNode;
using capture::AtenProgram;
using capture::ValueRef;
using ir::DType;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Le;

int AddInput(AtenProgram& p, DType dtype, std::vector<ir::Expr> shape, ir::InputKind kind = ir::InputKind::kUser) {
  capture::AtenValue value;
  value.type.tensor = {dtype, shape};
  value.type.strides = ir::RowMajorStrides(shape);
  p.values.push_back(value);
  const int id = static_cast<int>(p.values.size()) - 1;
  p.inputs.push_back({id, kind});
  return id;
}

int AddNode(AtenProgram& p, const std::string& op, std::vector<capture::NamedArgument> args) {
  p.values.emplace_back();
  AtenNode node;
  node.op = op;
  node.args = std::move(args);
  node.results = {static_cast<int>(p.values.size()) - 1};
  p.nodes.push_back(node);
  return node.results[0];
}

template <typename T>
std::vector<T> Read(const HostTensor& t) {
  std::vector<T> out(t.bytes.size() / sizeof(T));
  std::memcpy(out.data(), t.bytes.data(), t.bytes.size());
  return out;
}

TEST(Inputs, AreTheSameOnEveryMachine) {
  AtenProgram p;
  AddInput(p, DType::kF32, {1000});
  AddInput(p, DType::kI64, {1000});
  AddInput(p, DType::kBool, {1000});
  auto inputs = GenerateInputs(p, {});
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  std::string all;
  for (const HostTensor& t : *inputs) all += t.bytes;
  EXPECT_EQ(Digest(all), "6b0fb9e52df91325137ba3dfc0820020f4f7da31ef2c79f308a5fb225aeb44e2");
  InputOptions other;
  other.seed = 1;
  EXPECT_NE((*GenerateInputs(p, other))[0].bytes, (*inputs)[0].bytes);
}

// Several threads write the first, one the second, whose rows have a gap between them.
TEST(Inputs, LargeTensorsAreTheSameHoweverTheyAreWritten) {
  constexpr int64_t kRows = 3, kSize = (1 << 22) + 5;
  HostTensor tensors[2];
  for (int64_t gap : {0, 1}) {
    AtenProgram p;
    AddInput(p, DType::kBF16, {kRows, kSize});
    p.values[0].type.strides = {kSize + gap, 1};
    auto inputs = GenerateInputs(p, {});
    ASSERT_TRUE(inputs.ok()) << inputs.status();
    tensors[gap] = std::move((*inputs)[0]);
  }
  for (int64_t row = 0; row < kRows; ++row) {
    const char *dense = &tensors[0].bytes[2 * row * kSize], *apart = &tensors[1].bytes[2 * row * (kSize + 1)];
    EXPECT_EQ(std::memcmp(dense, apart, 2 * kSize), 0) << "row " << row;
  }
}

TEST(Inputs, FloatsAreNormal) {
  AtenProgram p;
  AddInput(p, DType::kF64, {100000});
  const std::vector<double> values = Read<double>((*GenerateInputs(p, {}))[0]);
  double sum = 0, squares = 0;
  int within = 0;
  for (double v : values) sum += v, squares += v * v, within += std::abs(v) < 1;
  EXPECT_NEAR(sum / values.size(), 0, 0.01);
  EXPECT_NEAR(squares / values.size(), 1, 0.02);
  EXPECT_NEAR(within / 1e5, 0.6827, 0.01);
}

TEST(Inputs, ParametersByFanInAndVariancesAwayFromZero) {
  AtenProgram p;
  AddInput(p, DType::kF32, {8, 25}, ir::InputKind::kParameter);
  const int x = AddInput(p, DType::kF32, {2, 4});
  const int variance = AddInput(p, DType::kF32, {4}, ir::InputKind::kBuffer);
  const int copy = AddNode(p, "aten.clone.default", {{"self", ValueRef{variance}}});
  AddNode(p, "aten.batch_norm.default", {{"input", ValueRef{x}}, {"running_var", ValueRef{copy}}});
  auto inputs = *GenerateInputs(p, {});
  EXPECT_THAT(Read<float>(inputs[0]), Each(::testing::AllOf(Ge(-0.2f), Le(0.2f))));
  EXPECT_THAT(Read<float>(inputs[2]), Each(::testing::AllOf(Ge(0.5f), Le(1.5f))));
}

TEST(Inputs, IntegersStayBelowWhatConsumesThem) {
  AtenProgram p;
  const int ids = AddInput(p, DType::kI64, {4096});
  const int table = AddInput(p, DType::kF32, {ir::Expr::Symbol("d0"), 4}, ir::InputKind::kParameter);
  const int view = AddNode(p, "aten.view.default", {{"self", ValueRef{ids}}});
  const int moved = AddNode(p, "aten.add.Tensor", {{"self", ValueRef{view}}, {"other", ir::Expr(2)}});
  AddNode(p, "aten.embedding.default", {{"weight", ValueRef{table}}, {"indices", ValueRef{moved}}});
  AddInput(p, DType::kI64, {64});  // a mask: nothing bounds it
  InputOptions options;
  options.symbols = {{"d0", 12}};
  auto inputs = *GenerateInputs(p, options);
  const std::vector<int64_t> values = Read<int64_t>(inputs[0]);
  EXPECT_EQ(*std::max_element(values.begin(), values.end()), 9);
  EXPECT_THAT(Read<int64_t>(inputs[2]), Each(::testing::AllOf(Ge(0), Le(1))));
}

TEST(Inputs, SizesAreChosenWithinRangesAndGuards) {
  AtenProgram p;
  const ir::Expr a = ir::Expr::Symbol("d0"), b = ir::Expr::Symbol("d1");
  p.symbols = {{"d0", 2, std::nullopt}, {"d1", 10, 11}};
  p.guards = {a - 20};
  AddInput(p, DType::kF32, {a, b});
  auto symbols = CompleteSymbols(p, {});
  ASSERT_TRUE(symbols.ok()) << symbols.status();
  EXPECT_GE(symbols->at("d0"), 20);
  EXPECT_THAT(
      (*CompleteSymbols(p, {}, {{0, MakeTensor(DType::kF32, {33, 11})}})),
      ElementsAre(std::pair<const std::string, int64_t>("d0", 33), std::pair<const std::string, int64_t>("d1", 11)));
  p.guards.push_back(ir::Expr(5) - a);
  EXPECT_EQ(GetError(CompleteSymbols(p, {}).status()).kind, "no_sizes_found");
}

TEST(Inputs, GivenTensorsGetTheStridesOfTheProgram) {
  AtenProgram p;
  const int id = AddInput(p, DType::kI64, {ir::Expr(2), ir::Expr(2)});
  p.values[id].type.strides = {ir::Expr(4), ir::Expr(1)};
  HostTensor columns = MakeStrided(DType::kI64, {2, 2}, {1, 2});
  const std::vector<int64_t> elements = {1, 2, 3, 4};  // 1 3 in the first row
  std::memcpy(columns.bytes.data(), elements.data(), columns.bytes.size());
  InputOptions given;
  given.given.emplace(0, columns);
  const auto inputs = GenerateInputs(p, given);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_THAT((*inputs)[0].strides, ElementsAre(4, 1));
  EXPECT_THAT(Read<int64_t>((*inputs)[0]), ElementsAre(1, 3, 0, 0, 2, 4));
}

TEST(Inputs, RefusesWhatDoesNotFit) {
  AtenProgram p;
  AddInput(p, DType::kF32, {ir::Expr::Symbol("d0")});
  EXPECT_EQ(GetError(GenerateInputs(p, {}).status()).kind, "unbound_symbol");
  InputOptions huge;
  huge.symbols = {{"d0", int64_t{1} << 40}};
  EXPECT_EQ(GetError(GenerateInputs(p, huge).status()).kind, "inputs_too_large");
  InputOptions given;
  given.symbols = {{"d0", 3}};
  given.given.emplace(0, MakeTensor(DType::kF32, {4}));
  EXPECT_EQ(GetError(GenerateInputs(p, given).status()).kind, "shape_mismatch");
}

}  // namespace
}  // namespace preheat::reference
