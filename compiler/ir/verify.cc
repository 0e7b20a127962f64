#include "compiler/ir/verify.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/op_attrs.h"
#include "compiler/ir/print.h"
#include "compiler/support/status_macros.h"

namespace preheat::ir {
namespace {

bool IsIdentifier(absl::string_view name) {
  if (name.empty() || absl::ascii_isdigit(name[0])) return false;
  for (char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return true;
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  absl::Status Run() {
    RETURN_IF_ERROR(CheckSymbols());
    for (size_t i = 0; i < graph_.inputs().size(); ++i) RETURN_IF_ERROR(CheckInput(i));
    int position = 0;
    for (const Node& node : graph_.nodes()) {
      if (node.id() != position) return Fail(absl::StrCat("node ", position, " has the id ", node.id()));
      RETURN_IF_ERROR(CheckNode(node));
      ++position;
    }
    std::set<int> mutated;
    for (size_t i = 0; i < graph_.outputs().size(); ++i) RETURN_IF_ERROR(CheckOutput(i, mutated));
    return absl::OkStatus();
  }

 private:
  static absl::Status Fail(absl::string_view what) {
    return absl::InternalError(absl::StrCat("invalid graph: ", what));
  }

  absl::Status CheckSymbols() {
    for (const Symbol& symbol : graph_.symbols()) {
      if (!IsIdentifier(symbol.name)) return Fail(absl::StrCat("\"", symbol.name, "\" is no name of a symbol"));
      if (!symbols_.insert(symbol.name).second)
        return Fail(absl::StrCat("the symbol ", symbol.name, " is there twice"));
      if (symbol.max && *symbol.max < symbol.min)
        return Fail(absl::StrCat("the symbol ", symbol.name, " has no values"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckDeclared(const Expr& e, absl::string_view where) const {
    if (e.is_constant()) return absl::OkStatus();
    for (const std::string& name : e.Symbols()) {
      if (symbols_.count(name) == 0) return Fail(absl::StrCat(where, " uses the undeclared symbol ", name));
    }
    return absl::OkStatus();
  }
  absl::Status CheckDeclared(absl::Span<const Expr> list, absl::string_view where) const {
    for (const Expr& e : list) RETURN_IF_ERROR(CheckDeclared(e, where));
    return absl::OkStatus();
  }

  bool Owns(const Value& value, int before) const {
    return value && value.node->id() >= 0 && value.node->id() < before &&
           &graph_.nodes()[value.node->id()] == value.node && value.index >= 0 &&
           value.index < static_cast<int>(value.node->results().size());
  }

  absl::Status CheckInput(size_t i) const {
    const GraphInput& input = graph_.inputs()[i];
    const Value& value = graph_.input_values()[i];
    std::string where = absl::StrCat("input ", i);
    if (!Owns(value, static_cast<int>(graph_.nodes().size())) || value.node->op() != Op::kInput ||
        value.node->Int("index") != static_cast<int64_t>(i) || value.type() != input.type) {
      return Fail(absl::StrCat(where, " is not its node's"));
    }
    if (input.type.rank() > kMaxRank || !IsManageable(input.type.shape) || !IsManageable(input.strides)) {
      return Fail(absl::StrCat(where, " has too large a shape"));
    }
    RETURN_IF_ERROR(OpAttrs(Op::kInput, {}).CheckSizes(input.type));
    if (input.strides.size() != input.type.shape.size())
      return Fail(absl::StrCat(where, " has not one stride a dimension"));
    if (input.alignment != 16 && input.alignment != DTypeSize(input.type.dtype)) {
      return Fail(absl::StrCat(where, " has an alignment of ", input.alignment));
    }
    RETURN_IF_ERROR(CheckDeclared(input.type.shape, where));
    RETURN_IF_ERROR(CheckDeclared(input.strides, where));
    if (!input.is_size) return input.symbol.empty() ? absl::OkStatus() : Fail(absl::StrCat(where, " names a symbol"));
    if (input.type != TensorType{DType::kI64, {}} || symbols_.count(input.symbol) == 0) {
      return Fail(absl::StrCat(where, " is a size, but not i64[] or of no declared symbol"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckNode(const Node& node) const {
    for (const Value& operand : node.operands()) {
      if (!Owns(operand, node.id())) return Fail(absl::StrCat("node ", node.id(), " has an operand from elsewhere"));
    }
    std::string where = absl::StrCat("node ", node.id(), " (", Info(node.op()).name, ")");
    for (const TensorType& type : node.results()) RETURN_IF_ERROR(CheckDeclared(type.shape, where));
    for (const auto& [name, value] : node.attrs()) {
      if (const auto* e = std::get_if<Expr>(&value)) RETURN_IF_ERROR(CheckDeclared(*e, where));
      if (const auto* list = std::get_if<std::vector<Expr>>(&value)) RETURN_IF_ERROR(CheckDeclared(*list, where));
    }
    if (node.op() == Op::kInput) return CheckInputNode(node);
    std::vector<TensorType> results(node.results().begin(), node.results().end());
    bool declared = Info(node.op()).rule == TypeRule::kDeclared;
    absl::StatusOr<std::vector<TensorType>> types =
        InferTypes(node.op(), node.operands(), node.attrs(), declared ? results : std::vector<TensorType>{});
    if (!types.ok()) return Fail(absl::StrCat(Print(node), ": ", types.status().message()));
    if (*types != results) return Fail(absl::StrCat(Print(node), ": the result types are not those inferred"));
    return absl::OkStatus();
  }

  absl::Status CheckInputNode(const Node& node) const {
    int64_t index = node.Int("index");
    bool known = index >= 0 && index < static_cast<int64_t>(graph_.inputs().size()) &&
                 graph_.input_values()[index] == node.result();
    return known ? absl::OkStatus() : Fail(absl::StrCat("node ", node.id(), " is the node of no input"));
  }

  absl::Status CheckOutput(size_t i, std::set<int>& mutated) const {
    const GraphOutput& output = graph_.outputs()[i];
    std::string where = absl::StrCat("output ", i);
    int inputs = static_cast<int>(graph_.inputs().size());
    if (!Owns(output.value, static_cast<int>(graph_.nodes().size()))) return Fail(absl::StrCat(where, " is no value"));
    if (output.strides.size() != output.value.shape().size()) {
      return Fail(absl::StrCat(where, " has not one stride a dimension"));
    }
    RETURN_IF_ERROR(CheckDeclared(output.strides, where));
    if (output.mutates < -1 || output.mutates >= inputs || output.aliases_input < -1 ||
        output.aliases_input >= inputs) {
      return Fail(absl::StrCat(where, " names no input"));
    }
    if (output.mutates < 0) return absl::OkStatus();
    if (output.aliases_input >= 0) return Fail(absl::StrCat(where, " mutates and aliases"));
    const GraphInput& input = graph_.inputs()[output.mutates];
    if (input.type != output.value.type()) return Fail(absl::StrCat(where, " has not the type of what it mutates"));
    if (input.frozen) return Fail(absl::StrCat(where, " mutates a frozen input"));
    if (!mutated.insert(output.mutates).second) return Fail(absl::StrCat(where, " mutates an input once more"));
    return absl::OkStatus();
  }

  const Graph& graph_;
  std::set<std::string> symbols_;
};

}  // namespace

absl::Status Verify(const Graph& graph) { return Verifier(graph).Run(); }

}  // namespace preheat::ir
