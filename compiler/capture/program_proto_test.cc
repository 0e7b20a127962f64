#include "compiler/capture/program_proto.h"

#include <random>

#include "compiler/capture/test_programs.h"
#include "compiler/support/error.h"
#include "gtest/gtest.h"

namespace preheat::capture {
namespace {

using ir::Expr;

// A program with every kind of argument in it.
AtenProgram Everything() {
  ProgramWriter w;
  w.program.symbols = {{"d0", 1, 64}, {"d1", 0, std::nullopt}};
  w.program.dim_names = {{"d0", "batch"}};
  w.program.guards = {Expr::Symbol("d0") - 1};
  Expr n = Expr::Symbol("d0");
  int x = w.Input({n, 8}, ir::DType::kBF16, ir::InputKind::kParameter);
  w.program.inputs[0].frozen = true;
  w.program.values.push_back({.type = {}, .is_size = true, .expr = Expr::Symbol("d1")});
  w.program.inputs.push_back({.value = 1, .kind = ir::InputKind::kUser, .frozen = false});
  int c = w.Value({2}, ir::DType::kI32);
  w.program.constants.push_back({.value = c, .data = std::string("\1\0\0\0\2\0\0\0", 8)});
  Argument tensors = std::vector<std::optional<ValueRef>>{ValueRef{x}, std::nullopt, ValueRef{c}};
  int y = w.Call("aten.made_up.default",
                 {{"none", None{}},
                  {"tensor", T(x)},
                  {"tensors", tensors},
                  {"int", I(Expr::FloorDiv(n + 1, 2))},
                  {"float", -0.5},
                  {"bool", true},
                  {"text", std::string("mean")},
                  {"complex", Complex{1, -2}},
                  {"dtype", ir::DType::kBool},
                  {"layout", Enum{Enum::Kind::kLayout, "strided"}},
                  {"format", Enum{Enum::Kind::kMemoryFormat, "channels_last"}},
                  {"device", Enum{Enum::Kind::kDevice, "cpu"}},
                  {"ints", std::vector<Expr>{n, 3}},
                  {"floats", std::vector<double>{0.25}},
                  {"bools", std::vector<bool>{true, false}}},
                 {n, 8}, ir::DType::kBF16);
  w.program.nodes[0].args.back().keyword = true;
  w.program.nodes[0].results.push_back(-1);
  w.program.nodes[0].debug_id = 0;
  w.program.debug.locations = {{"aten.made_up.default", "made_up", "a.py:1"}};
  w.program.debug.input_names = {"weight", "n"};
  w.program.outputs = {{.value = y, .aliases_input = 0}, {.value = -1}, {.value = y, .aliases_output = 0}};
  return w.program;
}

TEST(ProgramProto, IsLossless) {
  AtenProgram p = Everything();
  v1::Program proto = ToProto(p);
  absl::StatusOr<AtenProgram> again = FromProto(proto);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ToProto(*again).DebugString(), proto.DebugString());
  ASSERT_EQ(again->nodes.size(), 1u);
  for (size_t i = 0; i < p.nodes[0].args.size(); ++i) {
    EXPECT_EQ(again->nodes[0].args[i].value, p.nodes[0].args[i].value) << p.nodes[0].args[i].name;
  }
  EXPECT_EQ(again->dim_names, p.dim_names);
  EXPECT_EQ(again->values[0].type.strides, p.values[0].type.strides);
  EXPECT_EQ(again->symbols, p.symbols);
}

template <typename Change>
std::string KindAfter(const Change& change) {
  v1::Program proto = ToProto(Everything());
  change(proto);
  absl::StatusOr<AtenProgram> program = FromProto(proto);
  return program.ok() ? "" : GetError(program.status()).kind;
}

// x, negated where the condition holds.
AtenProgram Branch() {
  ProgramWriter negated, same;
  negated.Output(negated.Call("aten.neg.default", {{"self", T(negated.Input({4}))}}, {4}));
  same.Output(same.Input({4}));
  ProgramWriter w;
  const int c = w.Input({}, ir::DType::kBool), x = w.Input({4});
  w.Output(w.Control(kIfOp, c, {ValueRef{x}}, {negated.program, same.program}, {4}));
  return w.program;
}

TEST(ProgramProto, BlocksAreProgramsThatFit) {
  const v1::Program proto = ToProto(Branch());
  absl::StatusOr<AtenProgram> again = FromProto(proto);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->nodes[0].blocks.size(), 2u);
  EXPECT_EQ(again->nodes[0].blocks[0].nodes[0].op, "aten.neg.default");
  auto kind = [&](const auto& change) {
    v1::Program changed = proto;
    change(*changed.mutable_nodes(0), changed);
    absl::StatusOr<AtenProgram> program = FromProto(changed);
    return program.ok() ? "" : GetError(program.status()).kind;
  };
  EXPECT_EQ(kind([](auto& node, auto&) { node.mutable_blocks()->RemoveLast(); }), "malformed_program");
  EXPECT_EQ(kind([](auto& node, auto&) { node.mutable_blocks(0)->mutable_outputs(0)->clear_value(); }),
            "malformed_program");
  EXPECT_EQ(kind([](auto& node, auto&) { node.mutable_blocks(1)->mutable_inputs()->RemoveLast(); }),
            "malformed_program");
  EXPECT_EQ(kind([](auto& node, auto&) { node.set_op("aten.neg.default"); }), "malformed_program");
  EXPECT_EQ(kind([](auto& node, auto&) { node.mutable_arguments(0)->set_tensor(1); }), "malformed_program");  // f32[4]
  EXPECT_EQ(kind([](auto& node, auto& p) {
              for (int i = 0; i < 9; ++i) *node.mutable_blocks(0) = v1::Program(p);
            }),
            "malformed_program");
}

// Ones, of the shape that is said, while x has no zero.
AtenProgram Loop(const std::vector<ir::Expr>& shape) {
  ProgramWriter body;
  const int x = body.Input({4});
  body.Output(body.Call("aten.all.default", {{"self", T(x)}}, {}, ir::DType::kBool));
  body.Output(body.Call("aten.full.default", {{"size", shape}, {"fill_value", 1.0}}, shape));
  ProgramWriter w;
  const int more = w.Input({}, ir::DType::kBool), state = w.Input({4});
  w.Output(w.Control(kWhileOp, more, {ValueRef{state}}, {body.program}, shape));
  return w.program;
}

TEST(ProgramProto, ALoopGivesWhatItTakes) {
  EXPECT_TRUE(FromProto(ToProto(Loop({4}))).ok());
  EXPECT_EQ(GetError(FromProto(ToProto(Loop({8}))).status()).kind, "malformed_program");
}

TEST(ProgramProto, TrustsNothing) {
  EXPECT_EQ(KindAfter([](auto& p) { p.set_format(2); }), "unsupported_program_format");
  EXPECT_EQ(KindAfter([](auto& p) { p.mutable_nodes(0)->mutable_arguments(1)->set_tensor(99); }), "malformed_program");
  EXPECT_EQ(KindAfter([](auto& p) { p.mutable_nodes(0)->mutable_arguments(1)->set_tensor(3); }), "cyclic_graph");
  EXPECT_EQ(KindAfter([](auto& p) { p.mutable_nodes(0)->set_results(0, 0); }), "malformed_program");
  EXPECT_EQ(KindAfter([](auto& p) { p.mutable_inputs(0)->set_value(7); }), "malformed_program");
  EXPECT_EQ(KindAfter([](auto& p) { p.mutable_outputs(0)->set_mutates_input(1); }), "malformed_program");
  EXPECT_EQ(KindAfter([](auto& p) { p.mutable_outputs(0)->set_aliases_output(0); }), "malformed_program");
  EXPECT_EQ(KindAfter([](auto& p) { p.mutable_constants(0)->set_data("abc"); }), "malformed_program");
  EXPECT_EQ(KindAfter([](auto& p) { p.mutable_symbols(1)->set_name("n"); }), "malformed_program");
  EXPECT_EQ(KindAfter([](auto& p) { p.mutable_values(0)->mutable_tensor()->set_dtype(static_cast<v1::DType>(77)); }),
            "unknown_dtype");
  auto size = [](const char* text) {
    return KindAfter([text](auto& p) { p.mutable_values(0)->mutable_tensor()->set_sizes(0, text); });
  };
  EXPECT_EQ(size("-1"), "negative_size");
  EXPECT_EQ(size("4611686018427387904"), "size_overflow");
  EXPECT_EQ(size("d7"), "malformed_program");
  EXPECT_EQ(size("d0 +"), "malformed_program");
  EXPECT_EQ(size("2*3*d0"), "malformed_program");             // not canonical
  EXPECT_EQ(size("(d0 + 1)*(d0 + 1)"), "malformed_program");  // likewise
  EXPECT_EQ(size(""), "malformed_program");
}

TEST(ProgramProto, SurvivesChangedBytes) {
  std::string bytes = ToProto(Everything()).SerializeAsString();
  std::mt19937 rng(7);
  google::protobuf::SetLogHandler(nullptr);  // it would complain of every broken UTF-8 string
  for (int i = 0; i < 3000; ++i) {
    std::string changed = bytes;
    for (int k = 0; k < 3; ++k) changed[rng() % changed.size()] = static_cast<char>(rng());
    v1::Program proto;
    if (proto.ParseFromString(changed)) FromProto(proto).status().IgnoreError();
  }
}

}  // namespace
}  // namespace preheat::capture
