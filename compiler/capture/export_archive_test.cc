#include "compiler/capture/export_archive.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/support/error.h"
#include "gtest/gtest.h"

namespace preheat::capture {
namespace {

// y = c + x[:, symbolic] with a lifted constant, as torch 2.11 writes it, shortened.
constexpr char kModel[] = R"pt2({"graph_module": {"graph": {
  "inputs": [{"as_tensor": {"name": "c"}}, {"as_tensor": {"name": "x"}}],
  "outputs": [{"as_tensor": {"name": "add"}}, {"as_none": true}, {"as_int": 3}],
  "nodes": [
    {"target": "torch.ops.aten.sym_size.int", "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1}],
     "outputs": [{"as_sym_int": {"as_name": "n"}}], "metadata": {}},
    {"target": "_operator.mul", "inputs": [], "outputs": [{"as_sym_int": {"as_name": "n2"}}], "metadata": {}},
    {"target": "torch.ops.aten.view.default", "name": "view", "inputs": [
      {"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
      {"name": "size", "arg": {"as_sym_ints": [{"as_name": "n2"}]}, "kind": 1}],
     "outputs": [{"as_tensor": {"name": "view"}}], "metadata": {"stack_trace": "File a.py"}},
    {"target": "torch.ops.aten.add.Tensor", "name": "add", "inputs": [
      {"name": "self", "arg": {"as_tensor": {"name": "view"}}, "kind": 1},
      {"name": "other", "arg": {"as_tensor": {"name": "c"}}, "kind": 1},
      {"name": "alpha", "arg": {"as_float": "Infinity"}, "kind": 2}],
     "outputs": [{"as_tensor": {"name": "add"}}], "metadata": {}}],
  "tensor_values": {
    "c": {"dtype": 7, "sizes": [{"as_int": 1}], "strides": [{"as_int": 1}], "device": {"type": "cpu"}, "layout": 7},
    "x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "Symbol('s77', integer=True)"
}
}, {"as_int": 2}],
          "strides": [{"as_int": 2}, {"as_int": 1}], "device": {"type": "cpu"}, "layout": 7
}
, "view": {
  "dtype": 7,
  "sizes": [ {"as_expr": {"expr_str": "Mul(Integer(2), Symbol('s77', integer=True))"}} ],
  "strides": [ {"as_int": 1} ],
  "device": {"type": "cpu"},
  "layout": 7
},
           "add": {
  "dtype": 7, "sizes": [ {"as_expr": {"expr_str": "Mul(Integer(2), Symbol('s77', integer=True))"}} ],
                         "strides": [ {"as_int": 1} ],
                                     "device": {"type": "cpu"},
                                                "layout": 7
}
}
, "sym_int_values": {
  "n": {"as_expr": {"expr_str": "Symbol('s77', integer=True)"}}, "n2": {
    "as_expr": { "expr_str": "Mul(Integer(2), Symbol('s77', integer=True))" }
  }
}
}
, "signature": {
  "input_specs": [{"tensor_constant": {"arg": {"name": "c"}, "tensor_constant_name": "lifted_0"}},
                  {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
  "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "add"}}}}, {"user_output": {"arg": {"as_none": true}}},
                   {"user_output": {"arg": {"as_int": 3}}}]}},
 "range_constraints": {"s77": {"min_val": 2, "max_val": 64}},
 "schema_version": {"major": 8, "minor": 17}})pt2";

TEST(ExportArchive, ReadsAModelWithSymbolsAndAConstant) {
  absl::StatusOr<AtenProgram> program =
      ImportExportedModel({.model_json = kModel, .constants = {{"lifted_0", std::string(4, '\0')}}, .dims_json = ""});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->symbols, (std::vector<ir::Symbol>{{"d0", 2, 64}}));
  EXPECT_EQ(program->dim_names["d0"], "x.0");
  ASSERT_EQ(program->inputs.size(), 1u);
  EXPECT_EQ(program->constants.size(), 1u);
  ASSERT_EQ(program->nodes.size(), 2u);  // arithmetic of sizes leaves none
  const auto* size = std::get_if<std::vector<ir::Expr>>(program->nodes[0].Find("size"));
  ASSERT_NE(size, nullptr);
  EXPECT_EQ((*size)[0].ToString(), "2*d0");
  EXPECT_TRUE(std::isinf(std::get<double>(*program->nodes[1].Find("alpha"))));
  EXPECT_EQ(program->outputs[1].value, -1);
  EXPECT_EQ(program->values[program->outputs[2].value].expr, ir::Expr(3));
  EXPECT_EQ(program->debug.locations[program->nodes[0].debug_id].stack, "File a.py");
}

TEST(ExportArchive, ConstantsWithoutBytesAreInputs) {
  absl::StatusOr<AtenProgram> program = ImportExportedModel({.model_json = kModel, .constants = {}, .dims_json = ""});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->inputs[0].kind, ir::InputKind::kConstant);
  EXPECT_EQ(program->debug.input_names[0], "lifted_0");
}

TEST(ExportArchive, TakesRecordedNamesOfDimensions) {
  absl::StatusOr<AtenProgram> program =
      ImportExportedModel({.model_json = kModel, .constants = {}, .dims_json = R"({"x.0": "batch", "y.1": "other"})"});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->dim_names["d0"], "batch");
}

std::string KindAfter(std::initializer_list<std::pair<absl::string_view, absl::string_view>> changes) {
  std::string model = kModel;
  for (const auto& [from, to] : changes) {
    EXPECT_NE(model.find(std::string(from)), std::string::npos) << from;
    model = absl::StrReplaceAll(model, {{from, to}});
  }
  absl::StatusOr<AtenProgram> program = ImportExportedModel({.model_json = model, .constants = {}, .dims_json = ""});
  return program.ok() ? "" : GetError(program.status()).kind;
}

TEST(ExportArchive, RefusesWhatItCannotReadByName) {
  EXPECT_EQ(KindAfter({{R"("major": 8)", R"("major": 9)"}}), "unsupported_schema");
  EXPECT_EQ(KindAfter({{R"("minor": 17)", R"("minor": 99)"}}), "");
  EXPECT_EQ(KindAfter({{"Symbol('s77'", "Symbol('u0'"}}), "data_dependent_size");
  EXPECT_EQ(KindAfter({{R"({"as_int": 2}])", R"({"as_int": -2}])"}}), "negative_size");
  EXPECT_EQ(KindAfter({{R"("max_val": 64)", R"("max_val": 1)"}}), "malformed_archive");
  EXPECT_EQ(KindAfter({{R"("torch.ops.aten.add.Tensor")", R"("torch.ops.higher_order.cond")"}}),
            "unsupported_higher_order");
  EXPECT_EQ(KindAfter({{R"("as_tensor": {"name": "view"}}, "kind")", R"("as_tensor": {"name": "add"}}, "kind")"}}),
            "cyclic_graph");
}

TEST(ExportArchive, SurvivesEveryTruncation) {
  absl::string_view model = kModel;
  for (size_t length = 0; length < model.size(); length += 7) {
    EXPECT_FALSE(ImportExportedModel({.model_json = model.substr(0, length), .constants = {}, .dims_json = ""}).ok());
  }
}

}  // namespace
}  // namespace preheat::capture
