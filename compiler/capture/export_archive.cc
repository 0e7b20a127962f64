#include "compiler/capture/export_archive.h"

#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/capture/address_owners.h"
#include "compiler/capture/check_program.h"
#include "compiler/capture/export_reader.h"
#include "compiler/capture/guard_branch.h"
#include "compiler/capture/guard_text.h"
#include "compiler/capture/limits.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

using ir::Expr;
using Scope = ExportReader::Scope;

constexpr int kSchemaMajor = 8;
constexpr int kMaxInlining = 16;
constexpr size_t kMaxStack = 2000;  // characters kept of a stack trace

absl::Status CheckSchema(const Json& model) {
  const Json& major = Field(Field(model, "schema_version"), "major");
  if (!major.is_number_integer()) return Malformed("the model has no schema version");
  if (major == kSchemaMajor) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "unsupported_schema",
                    .message = absl::StrCat("the archive has schema ", major.dump(), "; this version reads schema 8"),
                    .where = "schema_version",
                    .fix = "export with torch 2.11"});
}

class Importer {
 public:
  Importer(const ExportArchive& archive, const Json& model)
      : archive_(archive),
        module_(Field(model, "graph_module")),
        guards_(Field(model, "guards_code")),
        reader_(Field(model, "range_constraints")) {}

  absl::StatusOr<AtenProgram> Import() {
    Scope scope{&Field(module_, "graph"), {}};
    const Json& signature = Field(module_, "signature");
    for (const Json& spec : Field(signature, "input_specs")) RETURN_IF_ERROR(AddInput(scope, spec));
    RETURN_IF_ERROR(AddNodes(scope, 0));
    for (const Json& spec : Field(signature, "output_specs")) RETURN_IF_ERROR(AddOutput(scope, spec));
    program_.symbols = reader_.symbols();
    ReadGuards();
    RETURN_IF_ERROR(NameDims());
    RETURN_IF_ERROR(AddressOwners(program_, offsets_));
    RETURN_IF_ERROR(CheckProgram(program_));
    return std::move(program_);
  }

 private:
  absl::StatusOr<int> AddValue(AtenValue value, const std::string& name) {
    if (program_.values.size() >= kMaxValues) return Malformed("too many values");
    program_.values.push_back(std::move(value));
    offsets_.emplace_back(0);
    program_.debug.value_names.push_back(name);
    return static_cast<int>(program_.values.size()) - 1;
  }

  absl::StatusOr<int> AddTensor(Scope& scope, const std::string& name) {
    ASSIGN_OR_RETURN(AtenType type, reader_.DeclaredType(scope, name));
    ASSIGN_OR_RETURN(int id, AddValue({.type = std::move(type), .is_size = false, .expr = Expr()}, name));
    ASSIGN_OR_RETURN(offsets_[id], reader_.StorageOffset(scope, name));
    if (!scope.value.emplace(name, id).second) return Malformed(absl::StrCat("the value ", name, " is defined twice"));
    return id;
  }

  absl::StatusOr<int> AddSize(const Expr& expr, const std::string& name) {
    return AddValue({.type = {}, .is_size = true, .expr = expr}, name);
  }

  // --- Inputs ---

  absl::Status AddInput(Scope& scope, const Json& spec) {
    if (!spec.is_object() || spec.size() != 1) return Malformed("an input's specification is malformed");
    const std::string& kind = spec.begin().key();
    const Json& body = spec.begin().value();
    if (kind == "constant_input") return absl::OkStatus();  // its value stands in the nodes already
    if (kind == "parameter")
      return AddTensorInput(scope, body, ir::InputKind::kParameter, Text(Field(body, "parameter_name")));
    if (kind == "buffer") return AddTensorInput(scope, body, ir::InputKind::kBuffer, Text(Field(body, "buffer_name")));
    if (kind == "tensor_constant") return AddConstant(scope, body);
    if (kind == "user_input") return AddUserInput(scope, Field(body, "arg"));
    return MakeError(absl::StatusCode::kUnimplemented,
                     {.kind = "unsupported_input",
                      .message = absl::StrCat("the model takes an input of the kind ", kind),
                      .where = "",
                      .fix = "export a model that takes tensors and integers"});
  }

  absl::Status AddTensorInput(Scope& scope, const Json& body, ir::InputKind kind, const std::string& title) {
    ASSIGN_OR_RETURN(int id, AddTensor(scope, Text(Field(Field(body, "arg"), "name"))));
    program_.inputs.push_back({.value = id, .kind = kind, .frozen = false});
    program_.debug.input_names.push_back(title);
    return absl::OkStatus();
  }

  absl::Status AddConstant(Scope& scope, const Json& body) {
    const std::string& title = Text(Field(body, "tensor_constant_name"));
    auto data = archive_.constants.find(title);
    if (data == archive_.constants.end()) return AddTensorInput(scope, body, ir::InputKind::kConstant, title);
    ASSIGN_OR_RETURN(int id, AddTensor(scope, Text(Field(Field(body, "arg"), "name"))));
    const ir::TensorType& type = program_.values[id].type.tensor;
    std::optional<int64_t> elements = type.NumElements().constant();
    if (!elements || static_cast<int64_t>(data->second.size()) != *elements * ir::DTypeSize(type.dtype)) {
      return Malformed(absl::StrCat("the constant ", title, " does not have the bytes of its type ", type.ToString()));
    }
    if (data->second.size() > kMaxConstantBytes)
      return Malformed(absl::StrCat("the constant ", title, " is larger than 4 KiB"));
    program_.values[id].type.strides = ir::RowMajorStrides(type.shape);
    offsets_[id] = 0;
    program_.constants.push_back({.value = id, .data = data->second});
    return absl::OkStatus();
  }

  absl::Status AddUserInput(Scope& scope, const Json& arg) {
    if (const Json& tensor = Field(arg, "as_tensor"); !tensor.is_null()) {
      return AddTensorInput(scope, Json{{"arg", tensor}}, ir::InputKind::kUser, Text(Field(tensor, "name")));
    }
    const std::string& name = Text(Field(Field(arg, "as_sym_int"), "as_name"));
    if (name.empty()) return absl::OkStatus();  // None and plain numbers: specialized
    ASSIGN_OR_RETURN(Expr expr, reader_.NamedSize(scope, name));
    if (!expr.symbol()) return Malformed(absl::StrCat("the integer input ", name, " is not a symbol"));
    ASSIGN_OR_RETURN(int id, AddSize(expr, name));
    program_.inputs.push_back({.value = id, .kind = ir::InputKind::kUser, .frozen = false});
    program_.debug.input_names.push_back(name);
    return absl::OkStatus();
  }

  // --- Nodes ---

  absl::Status AddNodes(Scope& scope, int depth) {
    if (depth > kMaxInlining) return Malformed("regions are nested too deeply");
    for (const Json& node : Field(*scope.graph, "nodes")) {
      absl::Status status = AddNode(scope, node, depth);
      if (!status.ok()) {
        return WithWhere(status,
                         absl::StrCat("node ", Text(Field(node, "name")), " (", Text(Field(node, "target")), ")"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddNode(Scope& scope, const Json& node, int depth) {
    absl::string_view target = Text(Field(node, "target"));
    if (absl::ConsumePrefix(&target, "torch.ops.higher_order.")) return Inline(scope, node, target, depth);
    if (!absl::ConsumePrefix(&target, "torch.ops.")) return absl::OkStatus();  // operator.*, torch.sym_*: sizes
    if (absl::StartsWith(target, "aten.sym_") || absl::StartsWith(target, "aten._assert_tensor_metadata"))
      return absl::OkStatus();
    if (OnlySizes(node)) return absl::OkStatus();
    AtenNode out{.op = std::string(target), .args = {}, .results = {}};
    for (const Json& input : Field(node, "inputs")) {
      ASSIGN_OR_RETURN(Argument value, reader_.ArgumentOf(scope, Field(input, "arg")));
      out.args.push_back(
          {.name = Text(Field(input, "name")), .value = std::move(value), .keyword = Field(input, "kind") == 2});
    }
    RETURN_IF_ERROR(AddResults(scope, Field(node, "outputs"), out));
    out.debug_id = AddLocation(node);
    program_.nodes.push_back(std::move(out));
    return absl::OkStatus();
  }

  // Nodes that neither take nor give a tensor: checks and arithmetic of sizes, known from declarations.
  static bool OnlySizes(const Json& node) {
    for (const char* list : {"inputs", "outputs"}) {
      for (const Json& item : Field(node, list)) {
        const Json& u = Field(item, "arg").is_null() ? item : Field(item, "arg");
        for (const char* kind : {"as_tensor", "as_tensors", "as_optional_tensor", "as_optional_tensors"}) {
          if (!Field(u, kind).is_null()) return false;
        }
      }
    }
    return true;
  }

  absl::Status AddResults(Scope& scope, const Json& outputs, AtenNode& node) {
    for (const Json& output : outputs) {
      if (const Json& list = Field(output, "as_tensors"); list.is_array()) {
        node.result_is_list = true;
        for (const Json& item : list) {
          ASSIGN_OR_RETURN(int id, AddTensor(scope, Text(Field(item, "name"))));
          node.results.push_back(id);
        }
      } else if (const Json& tensor = Field(output, "as_tensor"); !tensor.is_null()) {
        ASSIGN_OR_RETURN(int id, AddTensor(scope, Text(Field(tensor, "name"))));
        node.results.push_back(id);
      } else if (!Field(output, "as_none").is_null()) {
        node.results.push_back(-1);
      } else if (const Json& size = Field(output, "as_sym_int"); !size.is_null()) {
        // A size that comes out of a tensor: its declaration says which symbol, and an unbacked one is refused.
        RETURN_IF_ERROR(reader_.NamedSize(scope, Text(Field(size, "as_name"))).status());
      } else {
        return MakeError(
            absl::StatusCode::kUnimplemented,
            {.kind = "data_dependent_value",
             .message = "a node gives a Python number or bool that depends on the contents of a tensor",
             .where = "",
             .fix = "keep item() and comparisons of tensors in Python conditions out of the exported part"});
      }
    }
    return absl::OkStatus();
  }

  int AddLocation(const Json& node) {
    std::string stack = Text(Field(Field(node, "metadata"), "stack_trace"));
    if (stack.size() > kMaxStack) stack = stack.substr(stack.size() - kMaxStack);
    program_.debug.locations.push_back({.op = std::string(absl::StripPrefix(Text(Field(node, "target")), "torch.ops.")),
                                        .name = Text(Field(node, "name")),
                                        .stack = std::move(stack)});
    return static_cast<int>(program_.debug.locations.size()) - 1;
  }

  // What a higher-order operator is given: graphs and tensors, in order.
  struct Region {
    std::vector<const Json*> graphs;
    std::vector<ValueRef> tensors;
  };

  absl::StatusOr<Region> RegionOf(const Scope& scope, const Json& node) {
    Region region;
    for (const Json& input : Field(node, "inputs")) {
      const Json& arg = Field(input, "arg");
      if (!Field(arg, "as_graph").is_null()) region.graphs.push_back(&Field(Field(arg, "as_graph"), "graph"));
      if (const Json& tensor = Field(arg, "as_tensor"); !tensor.is_null()) {
        ASSIGN_OR_RETURN(ValueRef ref, reader_.Tensor(scope, tensor));
        region.tensors.push_back(ref);
      }
      for (const Json& tensor : Field(arg, "as_tensors")) {
        ASSIGN_OR_RETURN(ValueRef ref, reader_.Tensor(scope, tensor));
        region.tensors.push_back(ref);
      }
    }
    return region;
  }

  // wrap_with_set_grad_enabled(enabled, graph, operands...) and wrap_with_autocast(device, dtype, enabled,
  // cache, graph, operands...) compute what the graph computes.
  absl::Status Inline(Scope& outer, const Json& node, absl::string_view target, int depth) {
    ASSIGN_OR_RETURN(Region region, RegionOf(outer, node));
    if (target == "cond" && region.graphs.size() == 2) return Choose(outer, node, region, depth);
    const bool grad = target == "wrap_with_set_grad_enabled", autocast = target == "wrap_with_autocast";
    if ((!grad && !autocast) || (autocast && CastsOn(node)) || region.graphs.size() != 1)
      return UnsupportedRegion(target);
    ASSIGN_OR_RETURN(std::vector<int> results, InlineGraph(*region.graphs[0], region.tensors, depth));
    size_t next = 0;
    for (const std::string& name : ResultNames(node)) {
      if (next >= results.size()) return Malformed("a region gives fewer results than its node");
      outer.value[name] = results[next++];
    }
    return absl::OkStatus();
  }

  static bool CastsOn(const Json& node) {
    const Json& inputs = Field(node, "inputs");
    return !inputs.is_array() || inputs.size() < 3 || Field(Field(inputs[2], "arg"), "as_bool") == true;
  }

  static absl::Status UnsupportedRegion(absl::string_view target) {
    return MakeError(absl::StatusCode::kUnimplemented,
                     {.kind = "unsupported_higher_order",
                      .message = absl::StrCat("the higher-order operator ", target, " cannot be compiled yet"),
                      .where = "",
                      .fix = "preheat.export writes the casts of autocast as operators (elsewhere: "
                             "exported.run_decompositions({})); keep loops out of the exported part"});
  }

  // cond(predicate, then, else, operands): both branches are computed and `where` takes the results of one, which is
  // right as long as the other's nodes do nothing but compute and do not fail.
  absl::Status Choose(Scope& outer, const Json& node, const Region& region, int depth) {
    const Json& inputs = Field(node, "inputs");
    if (Field(Field(inputs[0], "arg"), "as_tensor").is_null()) return UnsupportedRegion("cond of a size");
    const std::vector<ValueRef> operands(region.tensors.begin() + 1, region.tensors.end());
    const size_t before = program_.nodes.size();
    std::array<std::vector<int>, 2> given;
    for (int branch : {0, 1}) {
      const size_t first = program_.nodes.size();
      ASSIGN_OR_RETURN(given[branch], InlineGraph(*region.graphs[branch], operands, depth));
      GuardBranch(program_, first, region.tensors[0].id, branch == 0);
      offsets_.resize(program_.values.size());
    }
    for (size_t i = before; i < program_.nodes.size(); ++i) {
      if (!OnlyComputes(program_.nodes[i])) return UnsupportedRegion(absl::StrCat("cond with ", program_.nodes[i].op));
    }
    const std::vector<std::string> names = ResultNames(node);
    if (names.size() != given[0].size() || names.size() != given[1].size())
      return Malformed("the branches of a cond do not give as many results as it has");
    for (size_t i = 0; i < names.size(); ++i) {
      AtenNode where{.op = "aten.where.self", .args = {}, .results = {}};
      where.args = {{.name = "condition", .value = region.tensors[0]},
                    {.name = "self", .value = ValueRef{given[0][i]}},
                    {.name = "other", .value = ValueRef{given[1][i]}}};
      ASSIGN_OR_RETURN(int id, AddTensor(outer, names[i]));
      where.results = {id};
      where.debug_id = AddLocation(node);
      program_.nodes.push_back(std::move(where));
    }
    return absl::OkStatus();
  }

  // Draws no random numbers, which would be others for what comes later, and is no operator of a user's.
  static bool OnlyComputes(const AtenNode& node) {
    if (!absl::StartsWith(node.op, "aten.")) return false;
    for (absl::string_view random : {"rand", "dropout", "bernoulli", "normal", "uniform", "exponential", "multinomial",
                                     "poisson", "binomial", "rrelu", "cauchy", "geometric"}) {
      if (absl::StrContains(node.op, random)) return false;
    }
    const Argument* probability = node.Find("dropout_p");
    return probability == nullptr || std::get_if<double>(probability) == nullptr || std::get<double>(*probability) == 0;
  }

  // The ids of a graph's results, its nodes now being the program's.
  absl::StatusOr<std::vector<int>> InlineGraph(const Json& graph, const std::vector<ValueRef>& operands, int depth) {
    Scope inner{&graph, {}};
    size_t next = 0;
    for (const Json& input : Field(graph, "inputs")) {
      const Json& tensor = Field(input, "as_tensor");
      if (tensor.is_null()) continue;
      if (next >= operands.size()) return Malformed("a region has fewer operands than inputs");
      inner.value[Text(Field(tensor, "name"))] = operands[next++].id;
    }
    RETURN_IF_ERROR(AddNodes(inner, depth + 1));
    std::vector<int> results;
    for (const Json& output : Field(graph, "outputs")) {
      const Json& tensor = Field(output, "as_tensor");
      if (tensor.is_null()) continue;
      ASSIGN_OR_RETURN(ValueRef ref, reader_.Tensor(inner, tensor));
      results.push_back(ref.id);
    }
    return results;
  }

  static std::vector<std::string> ResultNames(const Json& node) {
    std::vector<std::string> names;
    for (const Json& output : Field(node, "outputs")) {
      if (const Json& tensor = Field(output, "as_tensor"); !tensor.is_null())
        names.push_back(Text(Field(tensor, "name")));
      for (const Json& item : Field(output, "as_tensors")) names.push_back(Text(Field(item, "name")));
    }
    return names;
  }

  // --- Outputs ---

  absl::Status AddOutput(Scope& scope, const Json& spec) {
    if (!spec.is_object() || spec.size() != 1) return Malformed("an output's specification is malformed");
    const std::string& kind = spec.begin().key();
    const Json& body = spec.begin().value();
    const Json& arg = Field(body, "arg");
    std::string name = Text(Field(arg, "name"));
    OutputSpec output;
    if (kind == "user_output") {
      const Json& tensor = Field(arg, "as_tensor");
      name = Text(Field(tensor, "name"));
      if (tensor.is_null()) return AddSpecialOutput(scope, arg);
    } else if (kind == "buffer_mutation") {
      ASSIGN_OR_RETURN(output.mutates, InputNamed(Text(Field(body, "buffer_name"))));
    } else if (kind == "parameter_mutation") {
      ASSIGN_OR_RETURN(output.mutates, InputNamed(Text(Field(body, "parameter_name"))));
    } else if (kind == "user_input_mutation") {
      ASSIGN_OR_RETURN(output.mutates, InputNamed(Text(Field(body, "user_input_name"))));
    } else if (kind == "token") {
      return Malformed("programs with effect tokens are not read");
    }
    if (output.mutates >= 0) output.kind = OutputSpec::Kind::kMutatesInput;
    ASSIGN_OR_RETURN(ValueRef ref, reader_.Tensor(scope, Json{{"name", name}}));
    output.value = ref.id;
    program_.outputs.push_back(output);
    program_.debug.output_names.push_back(name);
    return absl::OkStatus();
  }

  // None and integers.
  absl::Status AddSpecialOutput(Scope& scope, const Json& arg) {
    OutputSpec output;
    if (Field(arg, "as_none").is_null()) {
      ASSIGN_OR_RETURN(Argument value, reader_.ArgumentOf(scope, arg));
      const Expr* size = std::get_if<Expr>(&value);
      if (size == nullptr) return Malformed("an output is neither tensor, integer nor None");
      ASSIGN_OR_RETURN(output.value, AddSize(*size, ""));
    }
    program_.outputs.push_back(output);
    program_.debug.output_names.push_back("");
    return absl::OkStatus();
  }

  absl::StatusOr<int> InputNamed(const std::string& name) const {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (program_.debug.input_names[i] == name) return static_cast<int>(i);
    }
    return Malformed(absl::StrCat("an output mutates \"", name, "\", which is no input"));
  }

  // --- Names of dimensions, and conditions on them ---

  std::optional<Expr> SizeOfInput(const std::string& name, int64_t axis) const {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const ir::TensorType& type = program_.values[program_.inputs[i].value].type.tensor;
      if (program_.debug.input_names[i] == name && axis < type.rank()) return type.shape[axis];
    }
    return std::nullopt;
  }

  void ReadGuards() {
    for (const Json& text : guards_) {
      auto size_of = [this](const std::string& name, int64_t axis) { return SizeOfInput(name, axis); };
      for (const Expr& guard : ParseGuard(Text(text), size_of).value_or(std::vector<Expr>{})) {
        if (!guard.is_constant()) program_.guards.push_back(guard);
      }
    }
  }

  absl::Status NameDims() {
    Json names;
    if (!archive_.dims_json.empty()) {
      ASSIGN_OR_RETURN(names, ParseJson(archive_.dims_json));
    }
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const AtenValue& value = program_.values[program_.inputs[i].value];
      const std::string& input = program_.debug.input_names[i];
      if (value.is_size) program_.dim_names.emplace(*value.expr.symbol(), input);
      for (int axis = 0; axis < value.type.tensor.rank(); ++axis) {
        std::optional<std::string> symbol = value.type.tensor.shape[axis].symbol();
        if (!symbol) continue;
        std::string place = absl::StrCat(input, ".", axis);
        program_.dim_names.emplace(*symbol, place);  // the first place wins, unless a name was recorded
        if (const std::string& name = Text(Field(names, place.c_str())); !name.empty())
          program_.dim_names[*symbol] = name;
      }
    }
    return absl::OkStatus();
  }

  const ExportArchive& archive_;
  const Json& module_;
  const Json& guards_;
  ExportReader reader_;
  AtenProgram program_;
  std::vector<Expr> offsets_;  // where each value's first element lies in its storage
};

}  // namespace

absl::StatusOr<AtenProgram> ImportExportedModel(const ExportArchive& archive) {
  ASSIGN_OR_RETURN(Json model, ParseJson(archive.model_json));
  RETURN_IF_ERROR(CheckSchema(model));
  if (!Field(Field(model, "graph_module"), "graph").is_object()) return Malformed("the model has no graph");
  return Importer(archive, model).Import();
}

}  // namespace preheat::capture
