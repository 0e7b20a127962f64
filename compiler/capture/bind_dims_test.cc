#include "compiler/capture/bind_dims.h"

#include "compiler/capture/check_program.h"
#include "compiler/capture/test_programs.h"
#include "compiler/support/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace preheat::capture {
namespace {

using ir::Expr;

AtenProgram TwoDimensions() {
  ProgramWriter w;
  w.program.symbols = {{"d0", 1, 64}, {"d1", 2, std::nullopt}};
  w.program.dim_names = {{"d0", "batch"}, {"d1", "seq"}};
  w.program.guards = {Expr::Symbol("d1") - 4};
  int x = w.Input({Expr::Symbol("d0"), Expr::Symbol("d1")});
  w.program.debug.input_names = {"ids"};
  Expr flat = Expr::Symbol("d0") * Expr::Symbol("d1");
  w.Output(w.Call("aten.view.default", {{"self", T(x)}, {"size", std::vector<Expr>{flat}}}, {flat}));
  return w.program;
}

TEST(BindDims, FixesDimensionsEverywhereAndKeepsTheOthersInOrder) {
  AtenProgram p = TwoDimensions();
  ASSERT_TRUE(BindDims(p, {{"batch", 8}}).ok());
  EXPECT_EQ(p.symbols, (std::vector<ir::Symbol>{{"d0", 2, std::nullopt}}));
  EXPECT_EQ(p.values[0].type.tensor.ToString(), "f32[8, d0]");
  EXPECT_EQ(p.values[1].type.tensor.ToString(), "f32[8*d0]");
  EXPECT_EQ(std::get<std::vector<Expr>>(*p.nodes[0].Find("size"))[0].ToString(), "8*d0");
  EXPECT_EQ(DimensionNames(p), std::vector<std::string>{"seq"});
  EXPECT_TRUE(CheckProgram(p).ok());
}

TEST(BindDims, KnowsADimensionByNamePlaceAndSymbol) {
  for (const char* name : {"seq", "ids.1", "d1"}) {
    AtenProgram p = TwoDimensions();
    ASSERT_TRUE(BindDims(p, {{name, 16}}).ok()) << name;
    EXPECT_EQ(p.values[0].type.tensor.ToString(), "f32[d0, 16]");
  }
}

TEST(BindDims, LeavesOutInputsThatAreABoundSize) {
  AtenProgram p = TwoDimensions();
  AtenValue size;
  size.is_size = true;
  size.expr = Expr::Symbol("d1");
  p.values.push_back(size);
  p.inputs.insert(p.inputs.begin(), {.value = static_cast<int>(p.values.size()) - 1});
  p.debug.input_names.insert(p.debug.input_names.begin(), "n");
  p.outputs.push_back({.value = 1, .mutates = 1, .aliases_input = 1});
  AtenProgram other = p;
  ASSERT_TRUE(BindDims(p, {{"d1", 16}}).ok());
  ASSERT_EQ(p.inputs.size(), other.inputs.size() - 1);
  EXPECT_EQ(p.inputs[0].value, other.inputs[1].value);
  EXPECT_EQ(p.debug.input_names.size(), p.inputs.size());
  EXPECT_EQ(p.outputs.back().mutates, 0);
  EXPECT_EQ(p.outputs.back().aliases_input, 0);
  ASSERT_TRUE(BindDims(other, {{"d0", 4}}).ok());  // d1, which is d0 now, is still passed
  EXPECT_TRUE(other.values[other.inputs[0].value].is_size);
}

std::string Kind(const std::map<std::string, int64_t>& dims) {
  AtenProgram p = TwoDimensions();
  absl::Status status = BindDims(p, dims);
  EXPECT_EQ(p.values[1].type.tensor.ToString(), status.ok() ? p.values[1].type.tensor.ToString() : "f32[d0*d1]");
  return GetError(status).kind;
}

TEST(BindDims, RefusesWrongNamesAndValues) {
  EXPECT_EQ(Kind({{"length", 8}}), "unknown_dimension");
  EXPECT_EQ(Kind({{"batch", 65}}), "dimension_out_of_range");
  EXPECT_EQ(Kind({{"batch", -1}}), "dimension_out_of_range");
  EXPECT_EQ(Kind({{"seq", int64_t{1} << 60}}), "dimension_out_of_range");
  EXPECT_EQ(Kind({{"seq", 3}}), "dimension_out_of_range");  // the guard
  EXPECT_EQ(Kind({{"seq", 8}, {"ids.1", 9}}), "conflicting_dimension");
  AtenProgram p = TwoDimensions();
  EXPECT_THAT(std::string(BindDims(p, {{"length", 8}}).message()), testing::HasSubstr("batch, seq"));
}

}  // namespace
}  // namespace preheat::capture
