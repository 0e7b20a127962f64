#include "compiler/codegen/node_text.h"

#include "absl/strings/str_cat.h"
#include "compiler/codegen/emit_c.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;
using ir::Op;
using ir::Value;

int NodeText::Buffer(Value value, bool written) {
  auto [it, fresh] = buffers_.try_emplace({value, written}, static_cast<int>(kernel_.buffers.size()));
  if (fresh) kernel_.buffers.push_back({value, value.dtype(), written});
  return it->second;
}

NodeArray NodeText::Operand(int i) {
  const Value value = node_.operand(i);
  auto view = schedule::PeelViews(value, strides_of_, sizes_);
  if (!view) return {"", Buffer(value, false), value.dtype(), value.shape(), strides_of_(value), Expr(0)};
  return {"", Buffer(view->base, false), value.dtype(), value.shape(), view->strides, view->offset};
}

NodeArray NodeText::Filled(int i) const {
  const Value value = node_.operand(i);
  const std::string text = ConstantText(value.node->ScalarAttr("value"), value.dtype());
  return {text, 0, value.dtype(), value.shape(), ir::RowMajorStrides(value.shape()), Expr(0)};
}

NodeArray NodeText::Result(int i) {
  const Value value = node_.result(i);
  return {"", Buffer(value, true), value.dtype(), value.shape(), strides_of_(value), Expr(0)};
}

std::string NodeText::BufferType(size_t b) const {
  return absl::StrCat(kernel_.buffers[b].written ? "" : "const ", StorageType(kernel_.buffers[b].dtype));
}

Expr NodeText::Local(const std::string& name) {
  locals_.insert(name);
  return Expr::Symbol(name);
}

std::string NodeText::Text(const Expr& e) {
  for (const std::string& s : e.Symbols()) {
    if (!locals_.count(s)) symbols_.insert(s);
  }
  auto name = [&](const std::string& s) { return locals_.count(s) ? s : size_prefix_ + s; };
  return absl::StrCat("(", IndexText(e, name, math_), ")");
}

std::string NodeText::Element(const NodeArray& a, const schedule::Index& index) {
  Expr at = a.offset;
  for (size_t i = 0; i < index.size(); ++i) at = at + index[i] * a.strides[i];
  return absl::StrCat("b", a.buffer, "[", Text(at), "]");
}

std::string NodeText::Load(const NodeArray& a, const schedule::Index& index) {
  return a.constant.empty() ? LoadText(Element(a, index), a.dtype, math_) : a.constant;
}

std::string NodeText::Converted(const std::string& value, DType dtype) { return StoreText(value, dtype, dtype, math_); }

std::string NodeText::Reduced(const std::string& reduce, const std::string& a, const std::string& b, DType dtype) {
  if (reduce == "add") return OpText(Op::kAdd, {a, b}, dtype, dtype, math_);
  if (reduce == "mul") return OpText(Op::kMul, {a, b}, dtype, dtype, math_);
  if (reduce == "max") return OpText(Op::kMax, {a, b}, dtype, dtype, math_);
  if (reduce == "min") return OpText(Op::kMin, {a, b}, dtype, dtype, math_);
  return b;
}

ScanJoin JoinOf(Op scan) {
  switch (scan) {
    case Op::kScanProd: return {Op::kMul, Op::kReduceProd, false};
    case Op::kScanMax: return {Op::kMax, Op::kReduceMax, true};
    case Op::kScanMin: return {Op::kMin, Op::kReduceMin, true};
    default: return {Op::kAdd, Op::kReduceSum, false};
  }
}

}  // namespace preheat::codegen
