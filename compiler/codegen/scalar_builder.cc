#include "compiler/codegen/scalar_builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;
using schedule::Flatten;
using schedule::Index;

void ScalarBuilder::Fail(absl::string_view what) {
  if (status_.ok()) status_ = absl::InternalError(absl::StrCat("lowering a region: ", what));
}
bool ScalarBuilder::Stored(Value value, bool top) const { return inputs_.count(value) && !(top && !copy_); }
void ScalarBuilder::Declare(const std::vector<Loop>& loops, int depth) {
  for (size_t i = 0; i < loops.size(); ++i) {
    ranges_.Set(loops[i].var, 0, loops[i].size - 1);
    depth_[loops[i].var] = depth == 0 ? 0 : depth + static_cast<int>(i);
  }
}
int ScalarBuilder::DepthOf(const Expr& e) const {
  int depth = 0;
  for (const std::string& s : e.Symbols()) {
    auto it = depth_.find(s);
    if (it != depth_.end()) depth = std::max(depth, it->second);
  }
  return depth;
}

int ScalarBuilder::Push(Stmt stmt) {
  for (int arg : stmt.args) stmt.depth = std::max(stmt.depth, kernel_.stmts[arg].depth);
  if (stmt.predicate >= 0) stmt.depth = std::max(stmt.depth, kernel_.stmts[stmt.predicate].depth);
  stmt.depth = std::max(stmt.depth, DepthOf(stmt.index));
  for (const Expr& e : stmt.conditions) stmt.depth = std::max(stmt.depth, DepthOf(e));
  int id = static_cast<int>(kernel_.stmts.size());
  if (stmt.depth >= 2 && current_) {
    current_->body.push_back(id);
  } else {
    kernel_.order.push_back(Item{id, std::nullopt, std::nullopt});
  }
  kernel_.stmts.push_back(std::move(stmt));
  return id;
}

int ScalarBuilder::Buffer(Value value, DType dtype, bool written) {
  auto [it, fresh] = buffers_.try_emplace({value, written}, static_cast<int>(kernel_.buffers.size()));
  if (fresh) kernel_.buffers.push_back({value, dtype, written});
  return it->second;
}

void ScalarBuilder::StoreAt(const Target& target, const Index& index, std::vector<Store>& stores) {
  int value = Evaluate(target.value, index, -1, true);
  Expr offset;
  for (size_t i = 0; i < index.size(); ++i) offset = offset + index[i] * target.strides[i];
  Store store;
  store.buffer = Buffer(target.value, target.value.dtype(), true);
  store.index = ranges_.Simplify(offset);
  store.value = value;
  store.depth = DepthOf(store.index);
  stores.push_back(store);
}

int ScalarBuilder::Evaluate(Value value, const Index& index, int predicate, bool top) {
  if (!status_.ok()) return 0;
  Key key{value, index, predicate};
  auto it = memo_.find(key);
  if (it != memo_.end()) return it->second;
  it = stage_memo_.find(key);
  if (it != stage_memo_.end()) return it->second;
  int id;
  auto place = predicate < 0 && scratch_.count(value) ? PlaceInRow(value, index) : std::nullopt;
  if (place) {
    id = LoadKept(value, *place);
  } else {
    id = EvaluateNew(value, index, predicate, top);
    if (status_.ok() && predicate < 0) Keep(value, index, id);
  }
  if (!status_.ok()) return 0;
  MemoFor(key, id)[key] = id;
  return id;
}

// What was found inside a stage holds for its piece only, even when it is a constant: pieces decide conditions.
std::map<ScalarBuilder::Key, int>& ScalarBuilder::MemoFor(const Key& key, int id) {
  int depth = kernel_.stmts[id].depth;
  for (const Expr& e : std::get<1>(key)) depth = std::max(depth, DepthOf(e));
  if (std::get<2>(key) >= 0) depth = std::max(depth, kernel_.stmts[std::get<2>(key)].depth);
  return depth >= 2 ? stage_memo_ : memo_;
}

int ScalarBuilder::EvaluateNew(Value value, const Index& index, int predicate, bool top) {
  const Node& node = *value.node;
  if (Stored(value, top)) return Load(value, index, predicate);
  Op op = node.op();
  if (op == Op::kFill) return Constant(node.ScalarAttr("value"), value.dtype());
  if (op == Op::kIota) return IndexValue(index[node.Int("dim")], value.dtype());
  if (op == Op::kSize) return IndexValue(node.ExprAttr("value"), value.dtype());
  if (op == Op::kPad) return Pad(node, index, predicate);
  if (op == Op::kConcat) return Concat(node, index, predicate);
  if (op == Op::kTake || op == Op::kGather) return Indexed(node, index, predicate);
  if (ir::IsView(op)) {
    return Evaluate(node.operand(0), schedule::ThroughView(node, index, ranges_), predicate, false);
  }
  if (ir::IsReduction(op)) {
    auto it = results_.find(value);
    if (it != results_.end()) return it->second;
    Fail("a reduction is needed before its stage");
    return 0;
  }
  if (ir::IsPointwise(op)) return Pointwise(node, index, predicate);
  Fail(absl::StrCat("operator ", std::string(ir::Info(op).name), " has no scalar form"));
  return 0;
}

int ScalarBuilder::Load(Value value, const Index& index, int predicate) {
  std::vector<Expr> strides = strides_of_(value);
  Stmt stmt;
  stmt.kind = Stmt::Kind::kLoad;
  stmt.dtype = ComputeType(value.dtype());
  stmt.buffer = Buffer(value, value.dtype(), false);
  for (size_t i = 0; i < index.size(); ++i) stmt.index = stmt.index + index[i] * strides[i];
  stmt.index = ranges_.Simplify(stmt.index);
  stmt.predicate = predicate;
  return Push(stmt);
}

int ScalarBuilder::Constant(ir::Scalar value, DType dtype) {
  Stmt stmt;
  stmt.kind = Stmt::Kind::kConstant;
  stmt.dtype = ComputeType(dtype);
  stmt.value = value;
  return Push(stmt);
}

int ScalarBuilder::IndexValue(const Expr& e, DType dtype) {
  Stmt stmt;
  stmt.kind = Stmt::Kind::kIndex;
  stmt.dtype = DType::kI64;
  stmt.index = ranges_.Simplify(e);
  int id = Push(stmt);
  return dtype == DType::kI64 ? id : Cast(id, dtype);
}

int ScalarBuilder::Cast(int arg, DType dtype) {
  Stmt stmt;
  stmt.kind = Stmt::Kind::kCast;
  stmt.dtype = dtype;  // the declared type: the emitter rounds through bf16 and f16
  stmt.args = {arg};
  return Push(stmt);
}

int ScalarBuilder::Pointwise(const Node& node, const Index& index, int predicate) {
  std::vector<int> args;
  for (Value operand : node.operands()) args.push_back(Evaluate(operand, index, predicate, false));
  if (!status_.ok()) return 0;
  if (node.op() == Op::kCast) return Cast(args[0], node.results()[0].dtype);
  Stmt stmt;
  stmt.kind = Stmt::Kind::kOp;
  stmt.dtype = ComputeType(node.results()[0].dtype);
  stmt.op = node.op();
  stmt.args = std::move(args);
  if (MayDivideByZero(stmt)) {
    stmt.error_site = static_cast<int>(ErrorSite::kDivision);
    stmt.predicate = predicate;
    kernel_.checks = true;
  }
  return Push(stmt);
}

bool ScalarBuilder::MayDivideByZero(const Stmt& op) const {
  if (!ir::IsDivision(op.op) || !ir::IsInteger(op.dtype)) return false;
  const Stmt& divisor = kernel_.stmts[op.args[1]];
  if (divisor.kind == Stmt::Kind::kConstant) return divisor.value == ir::Scalar(int64_t{0});
  return divisor.kind != Stmt::Kind::kIndex || !ranges_.NonNegative(divisor.index - 1);
}

// The statement "all of these are >= 0", or -1 when that is proved; -2 when it is refuted.
int ScalarBuilder::Condition(const std::vector<Expr>& conditions, int predicate) {
  Stmt stmt;
  stmt.kind = Stmt::Kind::kCondition;
  stmt.dtype = DType::kBool;
  stmt.predicate = predicate;
  for (const Expr& e : conditions) {
    Expr simple = ranges_.Simplify(e);
    if (ranges_.NonNegative(simple)) continue;
    if (ranges_.NonNegative(Expr(-1) - simple)) return -2;
    stmt.conditions.push_back(simple);
  }
  if (stmt.conditions.empty()) return -1;
  return Push(stmt);
}

int ScalarBuilder::Select(int condition, int then, int otherwise, DType dtype) {
  Stmt stmt;
  stmt.kind = Stmt::Kind::kOp;
  stmt.op = Op::kWhere;
  stmt.dtype = ComputeType(dtype);
  stmt.args = {condition, then, otherwise};
  return Push(stmt);
}

int ScalarBuilder::Pad(const Node& node, const Index& index, int predicate) {
  Index at = schedule::ThroughView(node, index, ranges_);
  DType dtype = node.results()[0].dtype;
  int condition = Condition(schedule::PadCondition(node, at, ranges_), predicate);
  if (condition == -2) return Constant(node.ScalarAttr("value"), dtype);
  if (condition == -1) return Evaluate(node.operand(0), at, predicate, false);
  int inside = Evaluate(node.operand(0), at, condition, false);
  return Select(condition, inside, Constant(node.ScalarAttr("value"), dtype), dtype);
}

int ScalarBuilder::Concat(const Node& node, const Index& index, int predicate) {
  int64_t dim = node.Int("dim");
  Expr start(0);
  std::vector<std::pair<int, int>> parts;  // condition, value
  for (Value part : node.operands()) {
    Index at = index;
    at[dim] = ranges_.Simplify(index[dim] - start);
    int condition = Condition({at[dim], part.shape()[dim] - 1 - at[dim]}, predicate);
    start = start + part.shape()[dim];
    if (condition == -2) continue;
    if (condition == -1) return Evaluate(part, at, predicate, false);
    parts.push_back({condition, Evaluate(part, at, condition, false)});
  }
  if (parts.empty()) return Constant(ir::Scalar(int64_t{0}), node.results()[0].dtype);
  int value = parts.back().second;
  for (size_t i = parts.size() - 1; i-- > 0;) {
    value = Select(parts[i].first, parts[i].second, value, node.results()[0].dtype);
  }
  return value;
}

int ScalarBuilder::Indexed(const Node& node, const Index& index, int predicate) {
  int64_t dim = node.Int("dim");
  int rank = node.operand(1).type().rank();
  Index at, where;
  if (node.op() == Op::kGather) {
    at = index, where = index;
  } else {
    where.assign(index.begin() + dim, index.begin() + dim + rank);
    at.assign(index.begin(), index.begin() + dim);
    at.push_back(Expr(0));
    at.insert(at.end(), index.begin() + dim + rank, index.end());
  }
  int position = Evaluate(node.operand(1), where, predicate, false);
  if (!status_.ok()) return 0;
  at[dim] = Wrapped(position, node.operand(0).shape()[dim], node, predicate);
  return Evaluate(node.operand(0), at, predicate, false);
}

// A checked index as a symbol of its own.
Expr ScalarBuilder::Wrapped(int position, const Expr& bound, const Node& node, int predicate) {
  Key key{Value{nullptr, 2 * position + (node.CountsFromEnd() ? 1 : 0)}, {bound}, predicate};
  auto known = memo_.find(key);
  if (known == memo_.end()) {
    known = stage_memo_.find(key);
    if (known == stage_memo_.end()) known = memo_.end();
  }
  int id;
  if (known != memo_.end()) {
    id = known->second;
  } else {
    Stmt stmt;
    stmt.kind = Stmt::Kind::kWrap;
    stmt.dtype = DType::kI64;
    stmt.args = {kernel_.stmts[position].dtype == DType::kI64 ? position : Cast(position, DType::kI64)};
    stmt.bound = bound;
    stmt.from_end = node.CountsFromEnd();
    stmt.predicate = predicate;
    kernel_.checks = true;
    stmt.error_site = static_cast<int>(node.op() == Op::kTake ? ErrorSite::kTake : ErrorSite::kGather);
    id = Push(stmt);
    MemoFor(key, id)[key] = id;
  }
  std::string name = absl::StrCat("x", id);
  ranges_.Set(name, 0, bound - 1);
  depth_[name] = kernel_.stmts[id].depth;
  return Expr::Symbol(name);
}

ScalarBuilder::Snapshot ScalarBuilder::Save() const { return {kernel_.stmts.size(), kernel_.order.size(), memo_}; }

void ScalarBuilder::Restore(const Snapshot& before) {
  kernel_.stmts.resize(before.stmts);
  kernel_.order.resize(before.order);
  memo_ = before.memo;
  stage_memo_.clear();
}

// The place in a row where a kept value's element belongs, if this index is the row's own element.
std::optional<Expr> ScalarBuilder::PlaceInRow(Value value, const Index& index) const {
  if (!current_ || !kept_.count(value)) return std::nullopt;
  Expr row = Expr::FloorDiv(value.type().NumElements(), outer_count_);
  Expr own = outer_position_ * row + inner_;
  if (ranges_.Simplify(Flatten(index, value.shape())) != ranges_.Simplify(own)) return std::nullopt;
  return ranges_.Simplify(inner_);
}

int ScalarBuilder::LoadKept(Value value, const Expr& place) {
  Stmt stmt;
  stmt.kind = Stmt::Kind::kScratch;
  stmt.buffer = scratch_.at(value);
  stmt.dtype = kernel_.scratch[stmt.buffer].dtype;
  stmt.index = place;
  return Push(stmt);
}

void ScalarBuilder::Keep(Value value, const Index& index, int id) {
  auto place = PlaceInRow(value, index);
  if (place) pending_.push_back({value, *place, id});
}

// Only what every piece of the stage computed covers the row.
void ScalarBuilder::CommitKept(Stage& stage, const std::vector<std::vector<Pending>>& pending) {
  std::map<Value, size_t> pieces;
  for (const std::vector<Pending>& piece : pending) {
    for (const Pending& keep : piece) ++pieces[keep.value];
  }
  for (size_t p = 0; p < stage.pieces.size(); ++p) {
    for (const Pending& keep : pending[p]) {
      if (pieces[keep.value] != stage.pieces.size()) continue;
      auto [it, fresh] = scratch_.try_emplace(keep.value, static_cast<int>(kernel_.scratch.size()));
      if (fresh) AddScratchArray(keep.value.dtype(), Expr::FloorDiv(keep.value.type().NumElements(), outer_count_));
      Store store;
      store.buffer = it->second, store.index = keep.place, store.value = keep.id;
      stage.pieces[p].scratch_stores.push_back(store);
    }
  }
}

int ScalarBuilder::AddScratchArray(DType dtype, const Expr& elements) {
  ScratchArray array;
  array.dtype = ComputeType(dtype);
  array.elements = elements;
  array.offset = kernel_.scratch_bytes;
  Expr bytes = array.elements * Expr(ir::DTypeSize(array.dtype));
  kernel_.scratch_bytes = kernel_.scratch_bytes + Expr::CeilDiv(bytes, 64) * Expr(64);
  kernel_.scratch.push_back(array);
  return static_cast<int>(kernel_.scratch.size()) - 1;
}

}  // namespace preheat::codegen
