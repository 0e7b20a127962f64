#include "compiler/capture/functionalize.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/capture/mutating_ops.h"
#include "compiler/capture/promote.h"
#include "compiler/capture/views.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

constexpr int kMaxChain = 4096;  // of views of views: they are taken anew by recursion

// A program is walked once. Each value of the source belongs to a storage: the memory that eager would
// have. A storage has a current value and a generation that counts its writes; a view remembers how it
// was taken and is taken anew when it is read in a later generation.
class Functionalizer {
 public:
  explicit Functionalizer(AtenProgram& program) : program_(program), source_(std::move(program.nodes)) {
    program.nodes.clear();
  }

  absl::Status Run() {
    places_.resize(program_.values.size());
    for (size_t i = 0; i < program_.inputs.size(); ++i) NewStorage(program_.inputs[i].value, static_cast<int>(i));
    for (const ConstantData& constant : program_.constants) {
      NewStorage(constant.value, -1);
      storages_.back().constant = true;
    }
    for (const AtenNode& node : source_) {
      RETURN_IF_ERROR(WithWhere(Visit(node), Where(node)));
    }
    return Outputs();
  }

 private:
  struct Storage {
    int current;
    int generation = 0;
    int input = -1;
    bool constant = false;
    bool maybe_shared = false;  // with another storage: must not be written
  };
  struct Place {  // where a value of the source lies
    int storage = -1;
    int parent = -1;                 // value it is a view of; -1: it is the whole storage
    const AtenNode* view = nullptr;  // how; null: the parent itself
    int result = 0;                  // which of the view's results
    int current = -1;                // the value that holds it in `generation`
    int generation = 0;
    int depth = 0;
  };

  // "node add_1 (aten.add.Tensor), model.py:12".
  std::string Where(const AtenNode& node) const {
    const bool known = node.debug_id >= 0 && node.debug_id < static_cast<int>(program_.debug.locations.size());
    if (!known) return absl::StrCat("node (", node.op, ")");
    const auto& location = program_.debug.locations[node.debug_id];
    const std::vector<std::string> lines = absl::StrSplit(location.stack, '\n', absl::SkipEmpty());
    const std::string place = lines.empty() ? "" : absl::StrCat(", ", absl::StripAsciiWhitespace(lines.back()));
    return absl::StrCat("node ", location.name, location.name.empty() ? "(" : " (", node.op, ")", place);
  }

  absl::Status Unsupported(absl::string_view what) const {
    return MakeError(absl::StatusCode::kUnimplemented,
                     {.kind = "unsupported_mutation",
                      .message = std::string(what),
                      .where = "",
                      .fix = "compute a new tensor instead of writing into this one"});
  }

  // --- Values ---

  int NewValue(const AtenType& type) {
    program_.values.push_back({.type = type, .is_size = false, .expr = ir::Expr()});
    if (!program_.debug.value_names.empty()) program_.debug.value_names.emplace_back();
    return static_cast<int>(program_.values.size()) - 1;
  }

  void NewStorage(int value, int input) {
    if (value < 0 || program_.values[value].is_size) return;
    places_[value] = {.storage = static_cast<int>(storages_.size()), .current = value};
    storages_.push_back({.current = value, .generation = 0, .input = input});
  }

  // Appends a node with one result of that type, at the source node's location.
  int Emit(AtenNode node, const AtenType& type, int debug_id) {
    int result = NewValue(type);
    node.results = {result};
    node.debug_id = debug_id;
    program_.nodes.push_back(std::move(node));
    return result;
  }

  // The value that holds what `value` of the source holds now.
  int Read(int value) {
    if (program_.values[value].is_size || places_[value].storage < 0) return value;
    Place& place = places_[value];
    Storage& storage = storages_[place.storage];
    if (place.parent < 0) return storage.current;
    if (place.generation == storage.generation) return place.current;
    int base = Read(place.parent);
    place.current = place.view == nullptr ? base : TakeAnew(*place.view, place.result, base);
    place.generation = storage.generation;
    return place.current;
  }

  int TakeAnew(const AtenNode& view, int result, int base) {
    AtenNode node = view;
    ReplaceOperands(node);
    for (NamedArgument& arg : node.args) {
      if (!std::holds_alternative<ValueRef>(arg.value)) continue;
      arg.value = ValueRef{base};  // the first tensor is what is viewed
      break;
    }
    for (int& id : node.results) id = id < 0 ? -1 : NewValue(program_.values[id].type);
    int taken = node.results[result];
    program_.nodes.push_back(std::move(node));
    return taken;
  }

  void ReplaceOperands(AtenNode& node) {
    for (NamedArgument& arg : node.args) {
      if (ValueRef* ref = std::get_if<ValueRef>(&arg.value)) ref->id = Read(ref->id);
      if (auto* list = std::get_if<std::vector<std::optional<ValueRef>>>(&arg.value)) {
        for (std::optional<ValueRef>& ref : *list) {
          if (ref) ref->id = Read(ref->id);
        }
      }
    }
  }

  // From now on `value` of the source, and all that shares its memory, holds what `updated` holds.
  absl::Status Write(int value, int updated, int debug_id) {
    Place& place = places_[value];
    if (place.storage < 0) return Unsupported("a size is written");
    Storage& storage = storages_[place.storage];
    if (storage.constant) return Unsupported("the program writes into a constant");
    if (storage.maybe_shared)
      return Unsupported("the program writes into a tensor that may or may not share memory with its reshaped form");
    if (place.parent < 0) {
      storage.current = updated;
      ++storage.generation;
      return absl::OkStatus();
    }
    int base_value = updated;
    if (place.view != nullptr) {
      int base = Read(place.parent);
      ASSIGN_OR_RETURN(AtenNode scatter, ScatterBack(program_, *place.view, place.result, base, updated));
      base_value = Emit(std::move(scatter), program_.values[place.parent].type, debug_id);
    }
    RETURN_IF_ERROR(Write(place.parent, base_value, debug_id));
    place.current = updated;
    place.generation = storage.generation;
    return absl::OkStatus();
  }

  // --- Nodes ---

  absl::Status Visit(const AtenNode& node) {
    if (ChangesMetadata(node.op)) return Unsupported(absl::StrCat(node.op, " changes a tensor's shape in place"));
    Aliasing aliasing = AliasingOf(program_, node);
    if (aliasing == Aliasing::kSame) return VisitAlias(node, nullptr);
    if (UpdatesStatistics(node)) return VisitBatchNorm(node);
    if (std::optional<std::string> op = InPlaceToValue(node.op)) return VisitInPlace(node, *op);
    if (std::optional<std::string> op = OutToValue(node.op)) return VisitOut(node, *op);
    AtenNode copy = node;
    ReplaceOperands(copy);
    for (AtenProgram& block : copy.blocks) RETURN_IF_ERROR(FunctionalizeBlock(block));
    program_.nodes.push_back(std::move(copy));
    if (node.IsControl()) return VisitControl(node, program_.nodes.back().blocks);
    if (aliasing == Aliasing::kView) return VisitAlias(node, &node);
    for (int result : node.results) NewStorage(result, -1);
    if (aliasing == Aliasing::kUnknown) MarkShared(FirstOperand(node), node.results[0]);
    return absl::OkStatus();
  }

  absl::Status FunctionalizeBlock(AtenProgram& block) const {
    RETURN_IF_ERROR(Functionalize(block));
    for (const OutputSpec& output : block.outputs) {
      if (output.mutates >= 0) return Unsupported("a branch or loop writes into a tensor from outside of it");
    }
    return absl::OkStatus();
  }

  // A result may be an operand unchanged, or share its memory; a loop that does not run gives back what it takes.
  absl::Status VisitControl(const AtenNode& node, const std::vector<AtenProgram>& blocks) {
    const size_t first = node.op == kWhileOp ? 1 : 0;  // of a block's outputs that is a result
    const auto& operands = std::get<std::vector<std::optional<ValueRef>>>(node.args[1].value);
    for (int result : node.results) NewStorage(result, -1);
    for (size_t i = 0; first == 1 && i < node.results.size(); ++i) MarkShared(operands[i]->id, node.results[i]);
    for (const AtenProgram& block : blocks) {
      for (size_t i = first; i < block.outputs.size(); ++i) {
        const int shared = block.outputs[i].aliases_input;
        if (shared >= 0) MarkShared(operands[shared]->id, node.results[i - first]);
      }
    }
    return absl::OkStatus();
  }

  void MarkShared(int a, int b) {
    if (places_[a].storage >= 0) storages_[places_[a].storage].maybe_shared = true;
    if (places_[b].storage >= 0) storages_[places_[b].storage].maybe_shared = true;
  }

  absl::Status VisitAlias(const AtenNode& node, const AtenNode* view) {
    int parent = FirstOperand(node);
    if (places_[parent].storage < 0) return Unsupported("a view of something that is no tensor");
    for (size_t i = 0; i < node.results.size(); ++i) {
      int value = node.results[i];
      if (value < 0) continue;
      const Place& base = places_[parent];
      if (base.depth >= kMaxChain) return Unsupported("a chain of more than 4096 views");
      places_[value] = {.storage = base.storage,
                        .parent = parent,
                        .view = view,
                        .result = static_cast<int>(i),
                        .current = view == nullptr ? Read(parent) : value,
                        .generation = storages_[base.storage].generation,
                        .depth = base.depth + 1};
    }
    return absl::OkStatus();
  }

  absl::Status VisitInPlace(const AtenNode& node, const std::string& value_op) {
    const ValueRef* self = node.args.empty() ? nullptr : std::get_if<ValueRef>(&node.args[0].value);
    if (self == nullptr) return Unsupported(absl::StrCat(node.op, " has no tensor to write to"));
    AtenNode value{.op = value_op, .args = node.args, .results = {}};
    ReplaceOperands(value);
    AtenType type = program_.values[self->id].type;
    ir::DType own = type.tensor.dtype;
    type.tensor.dtype = ResultDType(value, own);
    int updated = Emit(std::move(value), type, node.debug_id);
    if (type.tensor.dtype != own) updated = CastTo(updated, own, node.debug_id);
    RETURN_IF_ERROR(Write(self->id, updated, node.debug_id));
    if (node.results.empty() || node.results[0] < 0) return absl::OkStatus();
    return VisitAlias(node, nullptr);
  }

  // add_ computes in the promoted dtype and rounds to the tensor's own.
  ir::DType ResultDType(const AtenNode& node, ir::DType own) const {
    if (!Promotes(node.op)) return own;
    Promotion promotion;
    for (const NamedArgument& arg : node.args) {
      if (const ValueRef* ref = std::get_if<ValueRef>(&arg.value)) {
        promotion.AddTensor(program_.values[ref->id].type.tensor);
      } else if (arg.name == "other" || arg.name == "exponent") {
        promotion.AddNumber(arg.value);
      }
    }
    return promotion.Result();
  }

  int CastTo(int value, ir::DType dtype, int debug_id) {
    AtenType type = program_.values[value].type;
    type.tensor.dtype = dtype;
    AtenNode cast{.op = "aten._to_copy.default",
                  .args = {{.name = "self", .value = ValueRef{value}, .keyword = false},
                           {.name = "dtype", .value = dtype, .keyword = true}},
                  .results = {}};
    return Emit(std::move(cast), type, debug_id);
  }

  absl::Status VisitOut(const AtenNode& node, const std::string& value_op) {
    AtenNode value{.op = value_op, .args = {}, .results = {}};
    const ValueRef* out = nullptr;
    for (const NamedArgument& arg : node.args) {
      if (arg.name == "out") {
        out = std::get_if<ValueRef>(&arg.value);
      } else {
        value.args.push_back(arg);
      }
    }
    if (out == nullptr) return Unsupported(absl::StrCat(node.op, " writes several tensors"));
    ReplaceOperands(value);
    int updated = Emit(std::move(value), program_.values[out->id].type, node.debug_id);
    RETURN_IF_ERROR(Write(out->id, updated, node.debug_id));
    if (node.results.empty() || node.results[0] < 0) return absl::OkStatus();
    return AliasOf(node.results[0], out->id);
  }

  absl::Status AliasOf(int value, int parent) {
    AtenNode alias{.op = "aten.alias.default",
                   .args = {{.name = "self", .value = ValueRef{parent}, .keyword = false}},
                   .results = {value}};
    return VisitAlias(alias, nullptr);
  }

  // The functional form has two results more: the new running mean and variance.
  absl::Status VisitBatchNorm(const AtenNode& node) {
    AtenNode value{
        .op = "aten._native_batch_norm_legit_functional.default", .args = {}, .results = {}, .debug_id = node.debug_id};
    for (const NamedArgument& arg : node.args) {
      if (arg.name == "cudnn_enabled") continue;
      value.args.push_back(arg);
      value.args.back().keyword = false;
    }
    const auto* mean = std::get_if<ValueRef>(node.Find("running_mean"));
    const Argument* variance_arg = node.Find("running_var");
    const auto* variance = variance_arg == nullptr ? nullptr : std::get_if<ValueRef>(variance_arg);
    if (variance == nullptr) return Unsupported("batch norm has a running mean but no running variance");
    ReplaceOperands(value);
    value.results = node.results;
    const AtenType& mean_type = program_.values[mean->id].type;
    while (value.results.size() < 3)
      value.results.push_back(NewValue(mean_type));  // saved mean and 1/deviation, unused
    int new_mean = NewValue(program_.values[mean->id].type);
    int new_variance = NewValue(program_.values[variance->id].type);
    value.results.push_back(new_mean);
    value.results.push_back(new_variance);
    program_.nodes.push_back(std::move(value));
    for (int result : node.results) NewStorage(result, -1);
    RETURN_IF_ERROR(Write(mean->id, new_mean, node.debug_id));
    return Write(variance->id, new_variance, node.debug_id);
  }

  // --- Boundary ---

  absl::Status Outputs() {
    std::vector<OutputSpec> outputs;
    std::vector<std::string> names;
    for (const Storage& storage : storages_) {
      if (storage.input < 0 || storage.generation == 0) continue;
      outputs.push_back({.kind = OutputSpec::Kind::kMutatesInput, .value = storage.current, .mutates = storage.input});
      names.push_back(InputName(storage.input));
    }
    int shift = static_cast<int>(outputs.size());
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      OutputSpec output = program_.outputs[i];
      if (output.aliases_output >= 0) output.aliases_output += shift;
      if (output.value >= 0) {
        NoteAliases(output, static_cast<int>(i) + shift);
        output.value = Read(output.value);
      }
      outputs.push_back(output);
      names.push_back(i < program_.debug.output_names.size() ? program_.debug.output_names[i] : "");
    }
    program_.outputs = std::move(outputs);
    if (!program_.debug.output_names.empty() || !program_.debug.input_names.empty())
      program_.debug.output_names = std::move(names);
    return absl::OkStatus();
  }

  std::string InputName(int input) const {
    return input < static_cast<int>(program_.debug.input_names.size()) ? program_.debug.input_names[input] : "";
  }

  void NoteAliases(OutputSpec& output, int index) {
    if (output.kind != OutputSpec::Kind::kUser || places_[output.value].storage < 0) return;
    int storage = places_[output.value].storage;
    if (storages_[storage].input >= 0) {
      output.aliases_input = storages_[storage].input;
      return;
    }
    auto [first, fresh] = first_output_.emplace(storage, index);
    if (!fresh) output.aliases_output = first->second;
  }

  AtenProgram& program_;
  const std::vector<AtenNode> source_;
  std::vector<Place> places_;  // by value of the source; new values have none
  std::vector<Storage> storages_;
  std::map<int, int> first_output_;  // storage -> output
};

}  // namespace

absl::Status Functionalize(AtenProgram& program) { return Functionalizer(program).Run(); }

}  // namespace preheat::capture
