// Views by strides over a tensor's memory: elements addressed by their place in it.
//
// Values have no memory here. But where a tensor is dense and without gaps, as the program declares its strides, its
// elements lie there in the order of the strides: its memory is the value permuted and flattened. What is addressed is
// the operand's own memory, counted from its first element (compiler/capture/address_owners.h).

#include <optional>
#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/memory_order.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

std::vector<int64_t> Inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
  return back;
}

struct Memory {
  Value flat;                  // every element, in the order of memory
  std::vector<int64_t> order;  // the operand's dimensions as they lie there
  std::vector<Expr> permuted;  // its shape in this order

  Value Restore(OpContext& c, Value elements) const {
    return c.b.Permute(c.b.Reshape(elements, permuted), Inverse(order));
  }
};

Memory ReadMemory(OpContext& c) {
  Memory memory;
  Value x = c.Tensor("self");
  const capture::AtenType* declared = c.Declared("self");
  std::optional<std::vector<int64_t>> order;
  if (declared != nullptr) order = MemoryOrder(declared->tensor.shape, declared->strides);
  if (!x || !order) {
    c.Refuse("elements of the operand overlap, or lie apart");
    return memory;
  }
  memory.order = *std::move(order);
  for (int64_t i : memory.order) memory.permuted.push_back(x.shape()[i]);
  memory.flat = c.b.Reshape(c.b.Permute(x, memory.order), {x.type().NumElements()});
  return memory;
}

// Whether the elements of a view of that shape are all among the operand's. Symbolic ones are: eager checks them.
bool Inside(const Expr& start, const std::vector<Expr>& shape, const std::vector<Expr>& strides, const Expr& count) {
  Expr last = start;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == Expr(0)) return true;
    last = last + (shape[i] - Expr(1)) * strides[i];
  }
  if (start.constant().value_or(0) < 0) return false;
  std::optional<int64_t> beyond = (last - count).constant();
  return !beyond || *beyond < 0;
}

// Where the elements of a view of that shape lie.
Value Places(OpContext& c, const Memory& memory, const std::vector<Expr>& shape) {
  std::vector<Expr> strides = c.Sizes("stride");
  if (strides.size() != shape.size()) {
    c.Refuse("strides and sizes differ");
    return {};
  }
  if (!Inside(c.Size("storage_offset", 0), shape, strides, memory.flat.shape()[0])) {
    c.Refuse("elements outside of the operand");
    return {};
  }
  Value place = c.b.BroadcastTo(c.b.Size(c.Size("storage_offset", 0)), shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    Value along = c.b.Iota(DType::kI64, shape, static_cast<int>(i));
    place = c.b.Add(place, c.b.Mul(along, c.b.Size(strides[i])));
  }
  return place;
}

// The order in which a view of that shape goes through all of the memory; nullopt when it is another view.
std::optional<std::vector<int64_t>> OrderOfAll(OpContext& c, const Memory& memory, const std::vector<Expr>& shape) {
  const std::vector<Expr> strides = c.Sizes("stride");
  const bool all = strides.size() == shape.size() && c.Size("storage_offset", 0) == Expr(0) &&
                   ir::NumElements(shape) == memory.flat.shape()[0];
  return all && !shape.empty() ? MemoryOrder(shape, strides) : std::nullopt;
}

void AsStrided(OpContext& c) {
  Memory memory = ReadMemory(c);
  if (!memory.flat) return;
  const std::vector<Expr>& shape = c.ResultShape();
  if (const auto order = OrderOfAll(c, memory, shape)) {
    std::vector<Expr> lying;
    for (int64_t d : *order) lying.push_back(shape[d]);
    return c.Set(c.b.Permute(c.b.Reshape(memory.flat, lying), Inverse(*order)));
  }
  if (c.Size("storage_offset", 0) == Expr(0) && c.Sizes("stride") == ir::RowMajorStrides(shape) &&
      Inside(0, shape, c.Sizes("stride"), memory.flat.shape()[0])) {
    Value start = c.b.SliceDim(memory.flat, 0, 0, ir::NumElements(shape));
    return c.Set(c.b.Reshape(start, shape));
  }
  c.Set(c.b.Emit(Op::kTake, {memory.flat, Places(c, memory, shape)}, {{"dim", int64_t{0}}}));
}

void AsStridedScatter(OpContext& c) {
  Memory memory = ReadMemory(c);
  Value src = c.Operand("src", c.ResultType().dtype);
  if (!memory.flat || !src) return;
  if (const auto order = OrderOfAll(c, memory, src.shape())) {
    return c.Set(memory.Restore(c, c.b.Reshape(c.b.Permute(src, *order), {src.type().NumElements()})));
  }
  Value flat = c.b.Reshape(src, {src.type().NumElements()});
  Value places = c.b.Reshape(Places(c, memory, src.shape()), {src.type().NumElements()});
  Value put =
      c.b.Emit(Op::kPutRows, {memory.flat, places, flat}, {{"dim", int64_t{0}}, {"reduce", std::string("set")}});
  c.Set(memory.Restore(c, put));
}

}  // namespace

OpTable StridedOps() {
  return {
      {"aten.as_strided.default", AsStrided},
      {"aten.as_strided_copy.default", AsStrided},
      {"aten.as_strided_scatter.default", AsStridedScatter},
  };
}

}  // namespace preheat::decompose
