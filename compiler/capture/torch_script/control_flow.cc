#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/capture/torch_script/evaluator.h"
#include "compiler/capture/torch_script/places.h"
#include "compiler/capture/torch_script/scalars.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {

using c10::IValue;

namespace {

// The same object, or equal numbers, strings or lists of integers.
bool IsSame(const IValue& a, const IValue& b) {
  if (a.isTensor() || b.isTensor()) return a.isTensor() && b.isTensor() && a.is(b);
  if (a.tagKind() != b.tagKind()) return false;
  if (a.isNone() || a.isBool() || a.isInt() || a.isDouble() || a.isString() || a.isIntList()) return a == b;
  return a.is(b);
}

bool SameType(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes();
}

// A tensor or number: nothing stands for it only where a way has returned before.
bool HasValues(const c10::TypePtr& type) { return type->kind() == c10::TypeKind::TensorType || IsNumberType(type); }

at::Tensor ResultLike(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()).device(at::kMeta));
}

// A number or tensor of zeros; nothing for other things.
IValue ZeroLike(const IValue& value) {
  if (value.isBool()) return false;
  if (value.isInt()) return int64_t{0};
  if (value.isDouble()) return 0.0;
  if (!value.isTensor()) return IValue();
  return at::zeros(value.toTensor().sizes(), at::TensorOptions().dtype(value.toTensor().scalar_type()));
}

// Makes another builder the one that operators go to, for as long as it lives.
class Within {
 public:
  Within(ProgramBuilder*& current, ProgramBuilder* inside)
      : current_(current), outside_(std::exchange(current, inside)) {}
  ~Within() { current_ = outside_; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  ProgramBuilder*& current_;
  ProgramBuilder* const outside_;
};

// Those of both, each once.
std::vector<at::Tensor> Union(std::vector<at::Tensor> a, const std::vector<at::Tensor>& b) {
  for (const at::Tensor& tensor : b) {
    const bool known = std::any_of(a.begin(), a.end(), [&](const at::Tensor& t) { return t.is_same(tensor); });
    if (!known) a.push_back(tensor);
  }
  return a;
}

}  // namespace

absl::StatusOr<std::vector<IValue>> Evaluator::RunInside(ProgramBuilder& inside, const Block& block) {
  const Within within(builder_, &inside);
  RETURN_IF_ERROR(RunBlock(block));
  std::vector<IValue> outputs;
  for (const torch::jit::Value* value : block.outputs()) outputs.push_back(Get(value));
  return outputs;
}

// --- If ---

struct Evaluator::DataBranch {
  Node* node;
  at::Tensor condition;
  std::array<ProgramBuilder*, 2> sides;
};

absl::Status Evaluator::BranchOnData(Node* node, const at::Tensor& condition) {
  ProgramBuilder then_side(builder_), else_side(builder_);
  ASSIGN_OR_RETURN(const std::vector<IValue> then_values, RunInside(then_side, *node->blocks()[0]));
  ASSIGN_OR_RETURN(const std::vector<IValue> else_values, RunInside(else_side, *node->blocks()[1]));
  const DataBranch branch{node, condition, {&then_side, &else_side}};
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    ASSIGN_OR_RETURN(IValue joined,
                     Join(branch, node->outputs()[i]->type(), {then_values[i], else_values[i]}, results));
    Set(node->outputs()[i], std::move(joined));
  }
  const std::vector<at::Tensor> operands = Union(then_side.captured(), else_side.captured());
  std::vector<AtenProgram> blocks;
  for (ProgramBuilder* side : branch.sides) blocks.push_back(side->FinishBlock(operands));
  return builder_->AddControl(kIfOp, condition, operands, std::move(blocks), results, PlaceOf(node));
}

// What a value is behind a branch that gives it one of two ways: a constant, the condition, or a result.
absl::StatusOr<IValue> Evaluator::Join(const DataBranch& branch, const c10::TypePtr& type, std::array<IValue, 2> ways,
                                       std::vector<at::Tensor>& results) {
  if (IsSame(ways[0], ways[1]) && !ways[0].isTensor()) return ways[0];
  if (ways[0].isBool() && ways[1].isBool()) {
    if (ways[0].toBool()) return IValue(branch.condition);
    ASSIGN_OR_RETURN(at::Tensor inverse, Emit(branch.node, "aten::bitwise_not", "", {branch.condition}));
    return IValue(inverse);
  }
  if (type->kind() == c10::TypeKind::TupleType) return JoinTuples(branch, type, ways, results);
  for (int i = 0; i < 2 && HasValues(type); ++i) {
    if (!ways[i].isNone()) continue;
    if (!ways[1 - i].isTensor()) return ways[1 - i];
    ASSIGN_OR_RETURN(ways[i], Anything(branch, i, ways[1 - i].toTensor()));
  }
  for (const IValue& way : ways) {
    if (!way.isTensor() && !IsNumber(way)) return DataDependent(branch.node, absl::StrCat("a ", way.tagKind()));
  }
  const at::Tensor a = ToTensor(ways[0]), b = ToTensor(ways[1]);
  if (!SameType(a, b)) return DataDependent(branch.node, "the type of a tensor");
  RETURN_IF_ERROR(branch.sides[0]->AddOutput(a));
  RETURN_IF_ERROR(branch.sides[1]->AddOutput(b));
  results.push_back(ResultLike(a));
  return IValue(results.back());
}

absl::StatusOr<IValue> Evaluator::JoinTuples(const DataBranch& branch, const c10::TypePtr& type,
                                             const std::array<IValue, 2>& ways, std::vector<at::Tensor>& results) {
  const auto& types = type->expectRef<c10::TupleType>().elements();
  std::vector<IValue> items;
  for (size_t i = 0; i < types.size(); ++i) {
    const auto item = [&](const IValue& way) { return way.isTuple() ? way.toTupleRef().elements()[i] : IValue(); };
    ASSIGN_OR_RETURN(IValue joined, Join(branch, types[i], {item(ways[0]), item(ways[1])}, results));
    items.push_back(std::move(joined));
  }
  return IValue(c10::ivalue::Tuple::create(std::move(items)));
}

// A way that returned before has no value: any will do.
absl::StatusOr<IValue> Evaluator::Anything(const DataBranch& branch, int way, const at::Tensor& like) {
  const Within within(builder_, branch.sides[way]);
  ASSIGN_OR_RETURN(at::Tensor zeros,
                   Emit(branch.node, "aten::zeros", "", {like.sizes(), static_cast<int64_t>(like.scalar_type())}));
  return IValue(zeros);
}

// --- While ---

// A loop of the source that becomes one of the program.
struct Evaluator::DataLoop {
  Node* node;
  IValue trips;      // at most so many iterations; a tensor: its contents say
  int64_t start;     // the number of the first one
  IValue condition;  // of the first one
  std::vector<IValue> carried;
  std::vector<bool> changes;                         // of what is carried: tensors, and numbers that the body changes
  bool counts;                                       // the number of the iteration is needed
  std::vector<at::Tensor> before = {}, inside = {};  // what is on its way through the loop, outside and in the body

  bool endless() const { return trips.isInt() && trips.toInt() == std::numeric_limits<int64_t>::max(); }

  at::Tensor Take(const at::Tensor& tensor, ProgramBuilder& body) {
    const at::Tensor like = ResultLike(tensor);
    before.push_back(tensor);
    inside.push_back(body.AddInput("", ir::InputKind::kUser, like.sizes(), like.strides(), like.scalar_type()));
    return inside.back();
  }

  // Whether numbers change that were not known to. Other things may not.
  absl::StatusOr<bool> NoteChanges(const std::vector<IValue>& outputs) {
    bool found = false;
    for (size_t i = 0; i < carried.size(); ++i) {
      if (changes[i] || IsSame(carried[i], outputs[i + 1])) continue;
      if (carried[i].isNone()) carried[i] = ZeroLike(outputs[i + 1]);  // set by the body alone
      if (!IsNumber(carried[i]) && !carried[i].isTensor()) return DataDependent(node, "what a loop carries on");
      changes[i] = found = true;
    }
    return found;
  }
};

absl::Status Evaluator::LoopOnData(Node* node, const IValue& trips, int64_t start, const IValue& condition,
                                   const std::vector<IValue>& carried) {
  DataLoop loop{node, trips, start, condition, carried, {}, false};
  loop.counts = !loop.endless() || node->blocks()[0]->inputs()[0]->hasUses();
  for (const IValue& value : carried) loop.changes.push_back(value.isTensor());
  while (true) {  // until all numbers that change are known
    ProgramBuilder body(builder_);
    ASSIGN_OR_RETURN(const std::vector<IValue> outputs, WalkBody(loop, body));
    ASSIGN_OR_RETURN(const bool more, loop.NoteChanges(outputs));
    if (more) continue;
    RETURN_IF_ERROR(GiveState(loop, outputs, body));
    return AddLoop(loop, body);
  }
}

absl::StatusOr<std::vector<IValue>> Evaluator::WalkBody(DataLoop& loop, ProgramBuilder& body) {
  const Block& block = *loop.node->blocks()[0];
  loop.before.clear(), loop.inside.clear();
  Set(block.inputs()[0], loop.counts ? IValue(loop.Take(ToTensor(loop.start), body)) : IValue(loop.start));
  for (size_t i = 0; i < loop.carried.size(); ++i) {
    const IValue& value = loop.carried[i];
    Set(block.inputs()[i + 1], loop.changes[i] ? IValue(loop.Take(ToTensor(value), body)) : value);
  }
  return RunInside(body, block);
}

// The body's results: whether the loop goes on, and what goes on its way.
absl::Status Evaluator::GiveState(const DataLoop& loop, const std::vector<IValue>& outputs, ProgramBuilder& body) {
  const Within within(builder_, &body);
  at::Tensor again = ToTensor(outputs[0]);
  std::vector<at::Tensor> next;
  if (loop.counts) {
    ASSIGN_OR_RETURN(at::Tensor trip, Emit(loop.node, "aten::add", "Tensor", {loop.inside[0], ToTensor(int64_t{1})}));
    next.push_back(trip);
  }
  if (!loop.endless()) {
    ASSIGN_OR_RETURN(at::Tensor left, Emit(loop.node, "aten::lt", "Tensor", {next[0], ToTensor(loop.trips)}));
    ASSIGN_OR_RETURN(again, Emit(loop.node, "aten::bitwise_and", "Tensor", {again, left}));
  }
  for (size_t i = 0; i < loop.carried.size(); ++i) {
    if (loop.changes[i]) next.push_back(ToTensor(outputs[i + 1]));
  }
  RETURN_IF_ERROR(body.AddOutput(again));
  for (size_t i = 0; i < next.size(); ++i) {
    if (!SameType(next[i], loop.inside[i])) return DataDependent(loop.node, "the type of what a loop carries on");
    RETURN_IF_ERROR(body.AddOutput(next[i]));
  }
  return absl::OkStatus();
}

absl::Status Evaluator::AddLoop(const DataLoop& loop, ProgramBuilder& body) {
  at::Tensor first = ToTensor(loop.condition);
  if (loop.trips.isTensor()) {
    ASSIGN_OR_RETURN(at::Tensor some, Emit(loop.node, "aten::lt", "Tensor", {ToTensor(loop.start), loop.trips}));
    ASSIGN_OR_RETURN(first, Emit(loop.node, "aten::bitwise_and", "Tensor", {first, some}));
  }
  const std::vector<at::Tensor> captured = body.captured();
  std::vector<at::Tensor> operands = loop.before, results;
  operands.insert(operands.end(), captured.begin(), captured.end());
  for (const at::Tensor& tensor : loop.before) results.push_back(ResultLike(tensor));
  std::vector<AtenProgram> blocks;
  blocks.push_back(body.FinishBlock(captured));
  RETURN_IF_ERROR(builder_->AddControl(kWhileOp, first, operands, std::move(blocks), results, PlaceOf(loop.node)));
  size_t at = loop.counts ? 1 : 0;
  for (size_t i = 0; i < loop.carried.size(); ++i)
    Set(loop.node->outputs()[i], loop.changes[i] ? IValue(results[at++]) : loop.carried[i]);
  return absl::OkStatus();
}

}  // namespace preheat::capture
