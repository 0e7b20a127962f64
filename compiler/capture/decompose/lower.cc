#include "compiler/capture/decompose/lower.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/capture/address_owners.h"
#include "compiler/capture/decompose/exact.h"
#include "compiler/capture/decompose/extern_call.h"
#include "compiler/capture/decompose/memory_order.h"
#include "compiler/capture/decompose/op_context.h"
#include "compiler/capture/decompose/truths.h"
#include "compiler/ir/print.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::decompose {
namespace {

using capture::AtenNode;
using capture::AtenProgram;
using capture::AtenValue;
using capture::OutputSpec;
using capture::ValueRef;

const std::map<std::string, LowerFn>& Rows() {
  static const auto* rows = [] {
    auto* all = new std::map<std::string, LowerFn>;
    for (const OpTable& table :
         {PointwiseOps(),      ActivationOps(),    ReduceOps(),    SoftmaxOps(),     ViewOps(),     StridedOps(),
          CopyOps(),           PaddingOps(),       SearchOps(),    SpecialOps(),     BesselOps(),   OrthogonalOps(),
          UpsampleOps(),       CreationOps(),      MatMulOps(),    NormOps(),        ConvOps(),     PoolOps(),
          IndexOps(),          ScanOps(),          AttentionOps(), LossOps(),        BackwardOps(), BackwardNormOps(),
          BackwardWindowOps(), BackwardIndexOps(), EinsumOps(),    GpuAttentionOps()}) {
      for (const auto& [name, fn] : table) all->emplace(name, fn);
    }
    return all;
  }();
  return *rows;
}

const std::map<std::string, LowerFn>& TruthRows() {
  static const auto* rows = [] {
    auto* all = new std::map<std::string, LowerFn>;
    for (const auto& [name, fn] : TruthOps()) all->emplace(name, fn);
    return all;
  }();
  return *rows;
}

template <typename Visitor>
void ForEachOperand(const AtenNode& node, const Visitor& visit) {
  for (const capture::NamedArgument& arg : node.args) {
    if (const ValueRef* ref = std::get_if<ValueRef>(&arg.value)) visit(ref->id);
    if (const auto* list = std::get_if<std::vector<std::optional<ValueRef>>>(&arg.value)) {
      for (const std::optional<ValueRef>& ref : *list) {
        if (ref) visit(ref->id);
      }
    }
  }
}

class Lowering {
 public:
  Lowering(const AtenProgram& program, const LowerOptions& options)
      : program_(program),
        options_(options),
        builder_(&graph_),
        values_(program.values.size()),
        live_(program.values.size(), false),
        exact_(options.exact.value_or(IsExact(program))) {}

  absl::StatusOr<ir::Graph> Run() {
    for (const ir::Symbol& symbol : program_.symbols) graph_.AddSymbol(symbol);
    AddInputs();
    for (const capture::ConstantData& constant : program_.constants) {
      const TensorType& type = program_.values[constant.value].type.tensor;
      values_[constant.value] = builder_.Constant(type.dtype, type.shape, constant.data);
    }
    RETURN_IF_ERROR(builder_.status());
    ranges_ = graph_.SymbolRanges();
    MarkLive();
    for (const AtenNode& node : program_.nodes) {
      if (IsLive(node)) RETURN_IF_ERROR(WithWhere(AddNode(node), Where(node)));
    }
    for (const OutputSpec& output : program_.outputs) RETURN_IF_ERROR(AddOutput(output));
    return std::move(graph_);
  }

 private:
  std::string Where(const AtenNode& node) const {
    bool known = node.debug_id >= 0 && node.debug_id < static_cast<int>(program_.debug.locations.size());
    std::string name = known ? program_.debug.locations[node.debug_id].name : "";
    return absl::StrCat("node ", name.empty() ? std::to_string(&node - program_.nodes.data()) : name, " (", node.op,
                        ")");
  }

  void AddInputs() {
    std::vector<bool> written(program_.inputs.size(), false);
    for (const OutputSpec& output : program_.outputs) {
      if (output.mutates >= 0) written[output.mutates] = true;
    }
    for (size_t i = 0; i < program_.inputs.size(); ++i) AddInput(program_.inputs[i], written[i]);
  }

  // What a run writes is not frozen, whatever the caller says.
  void AddInput(const capture::InputSpec& input, bool written) {
    const AtenValue& value = program_.values[input.value];
    ir::GraphInput out{
        .kind = input.kind,
        .type = value.type.tensor,
        .strides = value.type.strides,
        .alignment = value.type.alignment >= 16 ? 16 : static_cast<int>(ir::DTypeSize(value.type.tensor.dtype)),
        .frozen = input.frozen && !written};
    if (value.is_size) {
      out.type = TensorType{DType::kI64, {}};
      out.is_size = true;
      out.symbol = value.expr.symbol().value_or("");
    }
    values_[input.value] = graph_.AddInput(std::move(out));
  }

  // --- What is needed ---

  void MarkLive() {
    for (const OutputSpec& output : program_.outputs) {
      if (output.value >= 0) live_[output.value] = true;
    }
    for (auto node = program_.nodes.rbegin(); node != program_.nodes.rend(); ++node) {
      if (!IsLive(*node)) continue;
      ForEachOperand(*node, [this](int id) { live_[id] = true; });
    }
  }

  bool IsLive(const AtenNode& node) const {
    if (!absl::StartsWith(node.op, "aten.") && !absl::StartsWith(node.op, "prims.")) return true;
    return std::any_of(node.results.begin(), node.results.end(), [this](int id) { return id >= 0 && live_[id]; });
  }

  // --- Nodes ---

  absl::Status AddNode(const AtenNode& node) {
    builder_.SetDebugId(node.debug_id);
    if (node.IsControl()) return AddControl(node);
    if (IsExcluded(node.op)) return AddExtern(node, "excluded by an option");
    if (options_.leave && options_.leave(node)) return AddExtern(node, "torch's kernel is the faster one");
    if (exact_ && TakesTruths(program_, node)) {
      if (auto row = TruthRows().find(node.op); row != TruthRows().end()) return AddBy(row->second, node);
    }
    auto row = Rows().find(node.op);
    if (row == Rows().end()) return AddExtern(node, "no native form is known");
    if (HasComplex(node)) return AddExtern(node, "complex numbers");
    if (exact_ && IsEagersOwn(program_, node)) return AddExtern(node, kKeepsEagersBits);
    return AddBy(row->second, node);
  }

  // --- Control flow ---

  absl::StatusOr<std::string> BlockText(const AtenProgram& block) const {
    LowerOptions options = options_;
    options.exact = exact_;
    ASSIGN_OR_RETURN(ir::Graph graph, Lower(block, options));
    return ir::Print(graph);
  }

  // Takes the condition too, and writes what it gives over what it takes.
  static AtenProgram LoopBody(const AtenNode& node) {
    AtenProgram body = node.blocks[0];
    capture::InputSpec condition{.value = static_cast<int>(body.values.size())};
    body.values.push_back(body.values[body.outputs[0].value]);
    body.inputs.insert(body.inputs.begin(), condition);
    body.debug.input_names.clear();
    for (size_t i = 0; i < body.outputs.size(); ++i) {
      body.outputs[i] = {
          .kind = OutputSpec::Kind::kMutatesInput, .value = body.outputs[i].value, .mutates = static_cast<int>(i)};
    }
    return body;
  }

  // Takes what the body takes, and gives the condition.
  static AtenProgram LoopCondition(const AtenProgram& body) {
    AtenProgram condition;
    condition.values = body.values;
    condition.inputs = body.inputs;
    condition.outputs = {{.value = body.inputs[0].value}};
    return condition;
  }

  absl::Status AddControl(const AtenNode& node) {
    if (node.results.empty()) return absl::OkStatus();  // its blocks write nothing outside (functionalize.h)
    std::vector<std::string> blocks;
    if (node.op == capture::kWhileOp) {
      AtenProgram body = LoopBody(node);
      ASSIGN_OR_RETURN(std::string condition, BlockText(LoopCondition(body)));
      ASSIGN_OR_RETURN(std::string text, BlockText(body));
      blocks = {std::move(condition), std::move(text)};
    }
    for (size_t i = 0; node.op == capture::kIfOp && i < node.blocks.size(); ++i) {
      ASSIGN_OR_RETURN(std::string text, BlockText(node.blocks[i]));
      blocks.push_back(std::move(text));
    }
    std::vector<Value> operands;
    ForEachOperand(node, [&](int id) { operands.push_back(values_[id]); });
    std::vector<TensorType> types;
    for (int id : node.results) types.push_back(program_.values[id].type.tensor);
    const std::vector<Value> results = builder_.EmitAll(node.op == capture::kIfOp ? Op::kIf : Op::kWhile, operands,
                                                        {{"blocks", std::move(blocks)}}, types);
    RETURN_IF_ERROR(builder_.status());
    for (size_t i = 0; i < results.size(); ++i) values_[node.results[i]] = results[i];
    return absl::OkStatus();
  }

  absl::Status AddBy(const LowerFn& lower, const AtenNode& node) {
    Builder builder(&graph_);
    builder.SetDebugId(node.debug_id);
    OpContext context(program_, node, values_, live_, exact_, options_.wide, builder);
    lower(context);
    if (!builder.status().ok()) return AddExtern(node, builder.status().message());
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (node.results[i] < 0 || !live_[node.results[i]]) continue;
      if (!context.results()[i]) return AddExtern(node, absl::StrCat("result ", i, " has no native form"));
      RETURN_IF_ERROR(CheckType(context.results()[i], program_.values[node.results[i]].type.tensor));
      values_[node.results[i]] = context.results()[i];
    }
    return absl::OkStatus();
  }

  bool IsExcluded(const std::string& op) const {
    for (const std::string& name : options_.exclude) {
      if (op == name || absl::StartsWith(op, name + ".")) return true;
    }
    return false;
  }

  bool HasComplex(const AtenNode& node) const {
    bool found = false;
    auto look = [&](int id) {
      found = found || (!program_.values[id].is_size && ir::IsComplex(program_.values[id].type.tensor.dtype));
    };
    ForEachOperand(node, look);
    for (int id : node.results) {
      if (id >= 0) look(id);
    }
    return found;
  }

  absl::Status CheckType(Value got, const TensorType& declared) const {
    bool same = got.dtype() == declared.dtype && got.type().rank() == declared.rank();
    for (int i = 0; same && i < declared.rank(); ++i) {
      same = got.shape()[i] == declared.shape[i] || ranges_.Simplify(got.shape()[i] - declared.shape[i]) == Expr(0);
    }
    if (same) return absl::OkStatus();
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        {.kind = "type_mismatch",
         .message = absl::StrCat("the operator gives ", got.type().ToString(), ", but the program declares ",
                                 declared.ToString()),
         .where = "",
         .fix = "export the program again; if that gives the same, report it: an operator is lowered wrongly"});
  }

  absl::Status AddExtern(const AtenNode& node, absl::string_view why) {
    if (options_.strict) return absl::UnimplementedError(absl::StrCat(node.op, " has no native form: ", why));
    if (capture::AddressesMemory(node.op)) return NoMemory(node, why);
    if (options_.left) options_.left(node, why);
    ExternCall call = WriteExternCall(node);
    std::vector<Value> operands;
    for (int id : call.operands) {
      operands.push_back(program_.values[id].is_size ? builder_.Size(program_.values[id].expr) : values_[id]);
    }
    std::vector<TensorType> types;
    for (int id : node.results) {
      if (id >= 0) types.push_back(program_.values[id].type.tensor);
    }
    ir::Attrs attrs = {{"name", node.op}, {"call", call.json}};
    if (std::vector<int64_t> orders = OrdersOf(node); !orders.empty()) attrs["orders"] = std::move(orders);
    std::vector<Value> results = builder_.EmitAll(Op::kExtern, operands, std::move(attrs), types);
    RETURN_IF_ERROR(builder_.status());
    size_t next = 0;
    for (int id : node.results) {
      if (id >= 0) values_[id] = results[next++];
    }
    return absl::OkStatus();
  }

  // The memory orders of all results, one behind the other; nothing where all are row-major or torch's cannot be told.
  std::vector<int64_t> OrdersOf(const AtenNode& node) const {
    std::vector<int64_t> orders;
    bool other = false;
    for (int id : node.results) {
      if (id < 0) continue;
      const capture::AtenType& type = program_.values[id].type;
      std::vector<int64_t> row_major(type.tensor.shape.size());
      std::iota(row_major.begin(), row_major.end(), 0);
      const std::vector<int64_t> order = MemoryOrder(type.tensor.shape, type.strides).value_or(row_major);
      other |= order != row_major;
      orders.insert(orders.end(), order.begin(), order.end());
    }
    return other ? orders : std::vector<int64_t>{};
  }

  // Operands of an extern call lie as the plan has them, not as the program says.
  static absl::Status NoMemory(const AtenNode& node, absl::string_view why) {
    return MakeError(absl::StatusCode::kUnimplemented,
                     {.kind = "unsupported_strides",
                      .message = absl::StrCat(node.op, " addresses memory that a program does not have: ", why),
                      .where = "",
                      .fix = "index the tensor instead of addressing its memory"});
  }

  // --- Outputs ---

  absl::Status AddOutput(const OutputSpec& output) {
    if (output.value < 0) return absl::OkStatus();
    const AtenValue& value = program_.values[output.value];
    ir::GraphOutput out{.value = value.is_size ? builder_.Size(value.expr) : values_[output.value],
                        .strides = value.type.strides,
                        .mutates = output.mutates,
                        .aliases_input = output.aliases_input};
    if (output.mutates >= 0) out.strides = program_.values[program_.inputs[output.mutates].value].type.strides;
    RETURN_IF_ERROR(builder_.status());
    graph_.AddOutput(std::move(out));
    return absl::OkStatus();
  }

  const AtenProgram& program_;
  const LowerOptions& options_;
  ir::Graph graph_;
  Builder builder_;
  ir::Ranges ranges_;
  std::vector<Value> values_;
  std::vector<bool> live_;
  const bool exact_;
};

}  // namespace

bool HasLowering(const std::string& op) { return Rows().count(op) != 0; }

absl::StatusOr<ir::Graph> Lower(const AtenProgram& program, const LowerOptions& options) {
  return Lowering(program, options).Run();
}

}  // namespace preheat::decompose
