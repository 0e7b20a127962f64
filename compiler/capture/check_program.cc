#include "compiler/capture/check_program.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/capture/limits.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

using ir::Expr;

absl::Status Malformed(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "malformed_program", .message = std::string(what), .where = "", .fix = ""});
}

class Checker {
 public:
  Checker(const AtenProgram& program, int depth)
      : program_(program), depth_(depth), defined_(program.values.size(), false) {}

  absl::Status Check() {
    RETURN_IF_ERROR(Symbols());
    if (program_.values.size() > kMaxValues) return Malformed("too many values");
    for (size_t i = 0; i < program_.values.size(); ++i) {
      RETURN_IF_ERROR(WithWhere(Type(program_.values[i]), absl::StrCat("value ", i)));
    }
    for (const InputSpec& input : program_.inputs) RETURN_IF_ERROR(Input(input));
    for (const ConstantData& constant : program_.constants) RETURN_IF_ERROR(Constant(constant));
    FindProducers();
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      RETURN_IF_ERROR(WithWhere(Node(program_.nodes[i]), absl::StrCat("node ", i, " (", program_.nodes[i].op, ")")));
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      RETURN_IF_ERROR(WithWhere(Output(program_.outputs[i], static_cast<int>(i)), absl::StrCat("output ", i)));
    }
    for (const Expr& guard : program_.guards) RETURN_IF_ERROR(Expression(guard));
    return absl::OkStatus();
  }

 private:
  bool InRange(int id) const { return id >= 0 && id < static_cast<int>(program_.values.size()); }

  absl::Status Symbols() {
    for (const ir::Symbol& symbol : program_.symbols) {
      if (symbol.name != absl::StrCat("d", symbols_.size())) {
        return Malformed(absl::StrCat("symbol number ", symbols_.size(), " must be called d", symbols_.size(),
                                      ", not \"", symbol.name, "\""));
      }
      if (symbol.min < 0 || symbol.min > kMaxMagnitude || symbol.max.value_or(symbol.min) < symbol.min) {
        return Malformed(absl::StrCat("the range of ", symbol.name, " is empty or negative"));
      }
      symbols_.insert(symbol.name);
    }
    return absl::OkStatus();
  }

  absl::Status Expression(const Expr& e) const {
    for (const std::string& name : e.Symbols()) {
      if (symbols_.count(name) == 0) return Malformed(absl::StrCat("the symbol ", name, " is not declared"));
    }
    return CheckMagnitude(e);
  }

  absl::Status Type(const AtenValue& value) const {
    if (value.is_size) return Expression(value.expr);
    const AtenType& type = value.type;
    if (type.strides.size() != type.tensor.shape.size()) return Malformed("sizes and strides differ in number");
    for (const Expr& size : type.tensor.shape) RETURN_IF_ERROR(Expression(size));
    for (const Expr& stride : type.strides) {
      RETURN_IF_ERROR(Expression(stride));
      if (stride.constant().value_or(0) < 0) return Malformed("a stride is negative");
    }
    if (type.alignment < 1 || type.alignment > 4096) return Malformed("an alignment is out of range");
    return CheckShape(type.tensor.shape);
  }

  absl::Status Define(int id) {
    if (!InRange(id)) return Malformed(absl::StrCat("there is no value ", id));
    if (defined_[id]) return Malformed(absl::StrCat("value ", id, " is defined twice"));
    defined_[id] = true;
    return absl::OkStatus();
  }

  absl::Status Input(const InputSpec& input) {
    RETURN_IF_ERROR(Define(input.value));
    const AtenValue& value = program_.values[input.value];
    if (value.is_size && !value.expr.symbol()) return Malformed("an integer input is not a symbol");
    return absl::OkStatus();
  }

  absl::Status Constant(const ConstantData& constant) {
    RETURN_IF_ERROR(Define(constant.value));
    const AtenValue& value = program_.values[constant.value];
    std::optional<int64_t> elements = value.type.tensor.NumElements().constant();
    if (value.is_size || !elements) return Malformed("a constant is no tensor of known size");
    if (constant.data.size() > kMaxConstantBytes) return Malformed("a constant is larger than 4 KiB");
    if (static_cast<int64_t>(constant.data.size()) != *elements * ir::DTypeSize(value.type.tensor.dtype)) {
      return Malformed("a constant does not have the bytes of its type");
    }
    return absl::OkStatus();
  }

  void FindProducers() {
    for (const AtenNode& node : program_.nodes) results_.insert(node.results.begin(), node.results.end());
  }

  absl::Status Use(int id) const {
    if (!InRange(id)) return Malformed(absl::StrCat("there is no value ", id));
    if (defined_[id] || program_.values[id].is_size) return absl::OkStatus();
    if (results_.count(id) == 0) return Malformed(absl::StrCat("value ", id, " is used, but nothing defines it"));
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.kind = "cyclic_graph",
                      .message = absl::StrCat("value ", id, " is used before it is computed"),
                      .where = "",
                      .fix = "nodes must stand in execution order"});
  }

  absl::Status Node(const AtenNode& node) {
    if (node.op.empty()) return Malformed("a node has no operator");
    std::set<std::string> names;
    for (const NamedArgument& arg : node.args) {
      if (!names.insert(arg.name).second) return Malformed(absl::StrCat("argument ", arg.name, " is given twice"));
      RETURN_IF_ERROR(Argument_(arg.value));
    }
    for (int result : node.results) {
      if (result == -1) continue;
      RETURN_IF_ERROR(Define(result));
      if (program_.values[result].is_size) return Malformed("a node's result is a size");
    }
    RETURN_IF_ERROR(node.IsControl() ? Control(node) : NoBlocks(node));
    bool has_location = node.debug_id >= 0 && node.debug_id < static_cast<int>(program_.debug.locations.size());
    return node.debug_id == -1 || has_location ? absl::OkStatus() : Malformed("a node's location does not exist");
  }

  // --- Control flow ---

  static absl::Status NoBlocks(const AtenNode& node) {
    return node.blocks.empty() ? absl::OkStatus() : Malformed("an operator that is no control flow has blocks");
  }

  absl::Status Control(const AtenNode& node) const {
    const auto* condition = node.args.size() == 2 ? std::get_if<ValueRef>(&node.args[0].value) : nullptr;
    const auto* operands = condition ? std::get_if<std::vector<std::optional<ValueRef>>>(&node.args[1].value) : nullptr;
    if (operands == nullptr) return Malformed("control flow takes a condition and a list of operands");
    if (!IsCondition(condition->id)) return Malformed("a condition is a bool without dimensions");
    const bool loop = node.op == kWhileOp;
    if (node.blocks.size() != (loop ? 1 : 2)) return Malformed("control flow has another number of blocks");
    if (loop) RETURN_IF_ERROR(CheckState(node, *operands));
    for (const AtenProgram& block : node.blocks) {
      if (depth_ >= kMaxBlockDepth) return Malformed("control flow is nested too deep");
      RETURN_IF_ERROR(WithWhere(Checker(block, depth_ + 1).Check(), "block"));
      RETURN_IF_ERROR(CheckInputs(block, *operands));
      RETURN_IF_ERROR(CheckOutputs(block, node, loop));
    }
    return absl::OkStatus();
  }

  bool IsCondition(int id) const {
    const AtenValue& value = program_.values[id];
    return !value.is_size && value.type.tensor == ir::TensorType{ir::DType::kBool, {}};
  }

  static bool SameTensor(const AtenValue& a, const AtenValue& b) {
    return !a.is_size && !b.is_size && a.type.tensor == b.type.tensor;
  }

  absl::Status CheckInputs(const AtenProgram& block, const std::vector<std::optional<ValueRef>>& operands) const {
    bool fit = block.inputs.size() == operands.size() && block.symbols.empty();
    for (size_t i = 0; fit && i < operands.size(); ++i) {
      fit = operands[i] && SameTensor(program_.values[operands[i]->id], block.values[block.inputs[i].value]);
    }
    return fit ? absl::OkStatus() : Malformed("a block does not take the operands of its control flow");
  }

  // What a loop gives becomes what it takes.
  absl::Status CheckState(const AtenNode& node, const std::vector<std::optional<ValueRef>>& operands) const {
    bool fit = node.results.size() <= operands.size();
    for (size_t i = 0; fit && i < node.results.size(); ++i) {
      fit = operands[i] && node.results[i] >= 0 &&
            SameTensor(program_.values[operands[i]->id], program_.values[node.results[i]]);
    }
    return fit ? absl::OkStatus() : Malformed("a loop gives other tensors than it takes");
  }

  // A loop's block gives the next condition first.
  absl::Status CheckOutputs(const AtenProgram& block, const AtenNode& node, bool loop) const {
    const size_t first = loop ? 1 : 0;
    bool fit = block.outputs.size() == node.results.size() + first;
    for (size_t i = 0; fit && i < block.outputs.size(); ++i) {
      fit = block.outputs[i].value >= 0;
      if (!fit) break;
      const AtenValue& given = block.values[block.outputs[i].value];
      const auto* condition = std::get_if<ValueRef>(&node.args[0].value);
      fit = i < first ? SameTensor(given, program_.values[condition->id])
                      : node.results[i - first] >= 0 && SameTensor(given, program_.values[node.results[i - first]]);
    }
    return fit ? absl::OkStatus() : Malformed("a block does not give the results of its control flow");
  }

  absl::Status Argument_(const Argument& value) const {
    if (const auto* ref = std::get_if<ValueRef>(&value)) return Use(ref->id);
    if (const auto* e = std::get_if<Expr>(&value)) {
      for (const std::string& name : e->Symbols()) {
        if (symbols_.count(name) == 0) return Malformed(absl::StrCat("the symbol ", name, " is not declared"));
      }
    }
    if (const auto* list = std::get_if<std::vector<Expr>>(&value)) {
      for (const Expr& e : *list) RETURN_IF_ERROR(Argument_(e));
    }
    if (const auto* list = std::get_if<std::vector<std::optional<ValueRef>>>(&value)) {
      for (const std::optional<ValueRef>& ref : *list) {
        if (ref) RETURN_IF_ERROR(Use(ref->id));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Output(const OutputSpec& output, int index) const {
    if (output.value != -1) RETURN_IF_ERROR(Use(output.value));
    int inputs = static_cast<int>(program_.inputs.size());
    if (output.mutates < -1 || output.mutates >= inputs || output.aliases_input < -1 ||
        output.aliases_input >= inputs) {
      return Malformed("it names an input that does not exist");
    }
    if (output.aliases_output < -1 || output.aliases_output >= index)
      return Malformed("it aliases an output that is not before it");
    bool mutation = output.kind == OutputSpec::Kind::kMutatesInput;
    if (mutation != (output.mutates >= 0) || (mutation && output.value < 0))
      return Malformed("a mutation names no input or no value");
    return mutation ? SameType(output) : absl::OkStatus();
  }

  absl::Status SameType(const OutputSpec& output) const {
    const AtenValue& value = program_.values[output.value];
    const AtenValue& input = program_.values[program_.inputs[output.mutates].value];
    if (value.is_size || input.is_size || !(value.type.tensor == input.type.tensor)) {
      return Malformed("the new contents of an input have another type than the input");
    }
    return absl::OkStatus();
  }

  const AtenProgram& program_;
  const int depth_;  // in control flow
  std::set<std::string> symbols_;
  std::vector<bool> defined_;
  std::set<int> results_;
};

}  // namespace

absl::Status CheckProgram(const AtenProgram& program) { return Checker(program, 0).Check(); }

}  // namespace preheat::capture
