#include "compiler/ir/graph.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/scalar.h"
#include "compiler/support/status_macros.h"

namespace preheat::ir {
namespace {

constexpr OpInfo kOps[] = {
#define PREHEAT_OP(Name, text, arity, rule, effects) {text, arity, TypeRule::rule, Effects::effects},
#include "compiler/ir/ops.def"
};
constexpr int kNumOps = sizeof(kOps) / sizeof(kOps[0]);

bool Between(Op op, Op first, Op last) { return op >= first && op <= last; }

// Scalars stand in the dtype of the tensor that they fill, so that equal programs have equal text.
absl::Status CanonicalizeScalar(Op op, absl::Span<const Value> operands, const std::vector<TensorType>& declared,
                                Attrs& attrs) {
  std::optional<DType> dtype;
  if (op == Op::kFill && declared.size() == 1) dtype = declared[0].dtype;
  if (op == Op::kPad && operands.size() == 1 && operands[0]) dtype = operands[0].dtype();
  auto it = attrs.find("value");
  if (!dtype || it == attrs.end()) return absl::OkStatus();
  Scalar scalar;
  if (const int64_t* i = std::get_if<int64_t>(&it->second)) {
    scalar = *i;
  } else if (const double* d = std::get_if<double>(&it->second)) {
    scalar = *d;
  } else {
    return absl::OkStatus();  // a wrong kind: InferTypes tells
  }
  absl::StatusOr<Scalar> canonical = ScalarAs(scalar, *dtype);
  if (!canonical.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(Info(op).name, ": ", canonical.status().message()));
  }
  std::visit([&](auto value) { it->second = value; }, *canonical);
  return absl::OkStatus();
}

}  // namespace

const OpInfo& Info(Op op) { return kOps[static_cast<int>(op)]; }

std::optional<Op> ParseOp(absl::string_view name) {
  static const auto* const by_name = [] {
    auto* map = new std::map<absl::string_view, Op>;
    for (int i = 0; i < kNumOps; ++i) map->emplace(kOps[i].name, static_cast<Op>(i));
    return map;
  }();
  auto it = by_name->find(name);
  if (it == by_name->end()) return std::nullopt;
  return it->second;
}

int NumOps() { return kNumOps; }

bool IsDivision(Op op) { return Between(op, Op::kDiv, Op::kFmod); }
bool IsUnaryPointwise(Op op) { return Between(op, Op::kNeg, Op::kCast); }
bool IsBinaryPointwise(Op op) { return Between(op, Op::kAdd, Op::kGe); }
bool IsPointwise(Op op) { return Between(op, Op::kNeg, Op::kWhere); }
bool IsReduction(Op op) { return Between(op, Op::kReduceSum, Op::kArgMin); }
bool IsView(Op op) { return Between(op, Op::kReshape, Op::kConcat); }
bool TakesOperand(absl::string_view epilogue) {
  for (absl::string_view name : {"bias", "residual", "mask", "values", "gradient", "output", "log_sums"}) {
    if (epilogue == name) return true;
  }
  return false;
}
bool IsLibrary(Op op) { return Between(op, Op::kMatMul, Op::kFused); }
bool IsControl(Op op) { return Between(op, Op::kIf, Op::kWhile); }

Expr NumElements(absl::Span<const Expr> shape) {
  Expr product = 1;
  for (const Expr& size : shape) product = product * size;
  return product;
}

std::vector<Expr> RowMajorStrides(absl::Span<const Expr> shape) {
  std::vector<Expr> strides(shape.size());
  Expr stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride = stride * shape[i];
  }
  return strides;
}

Expr TensorType::NumElements() const { return ir::NumElements(shape); }

std::string TensorType::ToString() const {
  return absl::StrCat(
      DTypeName(dtype), "[",
      absl::StrJoin(shape, ", ", [](std::string* out, const Expr& size) { absl::StrAppend(out, size.ToString()); }),
      "]");
}

bool Value::operator<(const Value& other) const {
  int id = node ? node->id() : -1;
  int other_id = other.node ? other.node->id() : -1;
  return id != other_id ? id < other_id : index < other.index;
}

const TensorType& Value::type() const { return node->results()[index]; }

int64_t Node::Int(const std::string& name) const { return std::get<int64_t>(attrs().at(name)); }
double Node::Double(const std::string& name) const { return std::get<double>(attrs().at(name)); }
const std::string& Node::String(const std::string& name) const { return std::get<std::string>(attrs().at(name)); }
const std::vector<int64_t>& Node::Ints(const std::string& name) const {
  return std::get<std::vector<int64_t>>(attrs().at(name));
}
const std::vector<Expr>& Node::Exprs(const std::string& name) const {
  return std::get<std::vector<Expr>>(attrs().at(name));
}
const std::vector<std::string>& Node::Strings(const std::string& name) const {
  return std::get<std::vector<std::string>>(attrs().at(name));
}
DType Node::Type(const std::string& name) const { return std::get<DType>(attrs().at(name)); }
Expr Node::ExprAttr(const std::string& name) const { return std::get<Expr>(attrs().at(name)); }

Scalar Node::ScalarAttr(const std::string& name) const {
  const AttrValue& value = attrs().at(name);
  if (const int64_t* i = std::get_if<int64_t>(&value)) return *i;
  return std::get<double>(value);
}

Value Graph::AddInput(GraphInput input) {
  Node& node = nodes_.emplace_back();
  node.id_ = static_cast<int>(nodes_.size()) - 1;
  node.body_ = std::make_shared<const Node::Body>(
      Node::Body{Op::kInput, {input.type}, {{"index", static_cast<int64_t>(inputs_.size())}}});
  inputs_.push_back(std::move(input));
  input_values_.push_back(node.result());
  return input_values_.back();
}

absl::StatusOr<const Node*> Graph::Add(Op op, absl::Span<const Value> operands, Attrs attrs,
                                       std::vector<TensorType> declared, int debug_id) {
  if (op == Op::kInput) return absl::InvalidArgumentError("input: inputs are added by AddInput");
  RETURN_IF_ERROR(CanonicalizeScalar(op, operands, declared, attrs));
  ASSIGN_OR_RETURN(std::vector<TensorType> results, InferTypes(op, operands, attrs, declared));
  Node& node = nodes_.emplace_back();
  node.id_ = static_cast<int>(nodes_.size()) - 1;
  node.debug_id_ = debug_id;
  node.operands_.assign(operands.begin(), operands.end());
  node.body_ = std::make_shared<const Node::Body>(Node::Body{op, std::move(results), std::move(attrs)});
  return &node;
}

const Node* Graph::AddCopy(const Node& node, std::vector<Value> operands) {
  Node& copy = nodes_.emplace_back();
  copy.id_ = static_cast<int>(nodes_.size()) - 1;
  copy.debug_id_ = node.debug_id_;
  copy.operands_ = std::move(operands);
  copy.body_ = node.body_;
  return &copy;
}

Ranges Graph::SymbolRanges() const {
  Ranges ranges;
  for (const Symbol& symbol : symbols_) {
    ranges.Set(symbol.name, symbol.min, symbol.max ? std::optional<Expr>(*symbol.max) : std::nullopt);
  }
  return ranges;
}

std::vector<std::vector<int>> Graph::CountUses() const {
  std::vector<std::vector<int>> uses;
  uses.reserve(nodes_.size());
  for (const Node& node : nodes_) {
    uses.emplace_back(node.results().size(), 0);
    for (const Value& operand : node.operands()) ++uses[operand.node->id()][operand.index];
  }
  for (const GraphOutput& output : outputs_) {
    if (output.value) ++uses[output.value.node->id()][output.value.index];
  }
  return uses;
}

void CloneBoundary(const Graph& from, Graph& to) {
  for (const Symbol& symbol : from.symbols()) to.AddSymbol(symbol);
  for (const GraphInput& input : from.inputs()) to.AddInput(input);
}

}  // namespace preheat::ir
