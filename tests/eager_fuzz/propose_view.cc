// Views, joins, repetitions and padding.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tests/eager_fuzz/proposals.h"

namespace preheat::testing {

using capture::Argument;
using capture::ValueRef;
using ir::Expr;

namespace {

Argument Refs(const std::vector<int>& ids) {
  std::vector<std::optional<ValueRef>> list;
  for (int id : ids) list.push_back(ValueRef{id});
  return list;
}

bool Joins(const Shape& a, const Shape& b, int dim) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    if (static_cast<int>(d) != dim && a[d] != b[d]) return false;
  }
  return true;
}

std::optional<Call> ProposeSplit(ValuePool& pool, const Record& a, int dim) {
  auto size = a.shape[dim].constant();
  if (!size || *size < 2 || *size > 8) return std::nullopt;
  Call call{"aten.split.Tensor", {}, {}, true};
  int64_t chunk = 1 + pool.Roll(static_cast<int>(*size));
  for (int64_t at = 0; at < *size; at += chunk) {
    call.shapes.push_back(a.shape);
    call.shapes.back()[dim] = std::min(chunk, *size - at);
  }
  call.args = {Arg("self", Ref(a)), Arg("split_size", Int(chunk)), Arg("dim", Int(dim))};
  return call;
}

}  // namespace

std::optional<Call> ProposePermute(ValuePool& pool) {
  const Record* x = PickRank(pool, 1);
  if (x == nullptr) return std::nullopt;
  int rank = x->rank(), dim = pool.Roll(rank);
  Shape shape = x->shape;
  switch (pool.Roll(5)) {
    case 0: {
      std::vector<int64_t> dims;
      for (size_t d : pool.Shuffled(rank))
        dims.push_back(static_cast<int64_t>(d)), shape[dims.size() - 1] = x->shape[d];
      return Call{"aten.permute.default", {Arg("self", Ref(*x)), Arg("dims", Ints(dims))}, {shape}};
    }
    case 1: {
      int other = pool.Roll(rank);
      std::swap(shape[dim], shape[other]);
      return Call{
          "aten.transpose.int", {Arg("self", Ref(*x)), Arg("dim0", Int(dim)), Arg("dim1", Int(other - rank))}, {shape}};
    }
    case 2: return Call{"aten.flip.default", {Arg("self", Ref(*x)), Arg("dims", Ints({dim}))}, {shape}};
    case 3:
      return Call{"aten.roll.default",
                  {Arg("self", Ref(*x)), Arg("shifts", Ints({pool.Roll(7) - 3})), Arg("dims", Ints({dim}))},
                  {shape}};
    default:
      if (rank < 2) return std::nullopt;
      return Call{pool.Roll(2) ? "aten.tril.default" : "aten.triu.default",
                  {Arg("self", Ref(*x)), Arg("diagonal", Int(pool.Roll(5) - 2))},
                  {shape}};
  }
}

std::optional<Call> ProposeReshape(ValuePool& pool) {
  const Record& x = pool.Pick();
  int rank = x.rank();
  Shape shape = x.shape;
  switch (pool.Roll(5)) {
    case 0: {
      int dim = pool.Roll(rank + 1);
      shape.insert(shape.begin() + dim, Expr(1));
      return Call{"aten.unsqueeze.default", {Arg("self", Ref(x)), Arg("dim", Int(dim))}, {shape}};
    }
    case 1: {
      if (rank == 0) return std::nullopt;
      int dim = pool.Roll(rank);
      if (shape[dim] == Expr(1)) shape.erase(shape.begin() + dim);
      return Call{"aten.squeeze.dim", {Arg("self", Ref(x)), Arg("dim", Int(dim))}, {shape}};
    }
    case 2: {
      shape = {ir::NumElements(x.shape)};
      return Call{"aten.reshape.default", {Arg("self", Ref(x)), Arg("shape", Ints({-1}))}, {shape}};
    }
    case 3: {  // two dimensions become one
      if (rank < 2) return std::nullopt;
      int dim = pool.Roll(rank - 1);
      shape[dim] = shape[dim] * shape[dim + 1];
      shape.erase(shape.begin() + dim + 1);
      return Call{"aten.reshape.default", {Arg("self", Ref(x)), Arg("shape", shape)}, {shape}};
    }
    default: {  // one becomes two
      if (rank == 0) return std::nullopt;
      int dim = pool.Roll(rank);
      auto size = shape[dim].constant();
      int64_t factor = pool.Of({2, 3, 4});
      if (!size || *size % factor != 0) return std::nullopt;
      shape[dim] = *size / factor;
      shape.insert(shape.begin() + dim, Expr(factor));
      return Call{"aten.view.default", {Arg("self", Ref(x)), Arg("size", shape)}, {shape}};
    }
  }
}

std::optional<Call> ProposeSlice(ValuePool& pool) {
  const Record* x = PickRank(pool, 1);
  if (x == nullptr) return std::nullopt;
  int dim = pool.Roll(x->rank());
  Shape shape = x->shape;
  auto size = shape[dim].constant();
  if (pool.Roll(4) == 0) {
    if (!size) return std::nullopt;
    int64_t at = pool.Roll(static_cast<int>(std::max<int64_t>(*size, 1)));
    shape.erase(shape.begin() + dim);
    return Call{"aten.select.int",
                {Arg("self", Ref(*x)), Arg("dim", Int(dim)), Arg("index", Int(at - (pool.Roll(2) ? *size : 0)))},
                {shape}};
  }
  if (!size) {  // all but the first
    shape[dim] = shape[dim] - 1;
    if (!shape[dim].Symbols().empty() && x->shape[dim].symbol()) {
      return Call{"aten.slice.Tensor",
                  {Arg("self", Ref(*x)), Arg("dim", Int(dim)), Arg("start", Int(1)), Arg("end", Int(INT64_MAX))},
                  {shape}};
    }
    return std::nullopt;
  }
  int64_t start = pool.Roll(static_cast<int>(*size) + 1), end = start + pool.Roll(static_cast<int>(*size - start) + 1);
  int64_t step = 1 + pool.Roll(3);
  shape[dim] = (end - start + step - 1) / step;
  return Call{"aten.slice.Tensor",
              {Arg("self", Ref(*x)), Arg("dim", Int(dim)), Arg("start", Int(start)), Arg("end", Int(end)),
               Arg("step", Int(step))},
              {shape}};
}

std::optional<Call> ProposeJoin(ValuePool& pool) {
  const Record* x = PickRank(pool, 1);
  if (x == nullptr) return std::nullopt;
  const Record& a = *x;
  int dim = pool.Roll(a.rank());
  if (pool.Roll(4) == 0) return ProposeSplit(pool, a, dim);
  std::vector<int> ids = {a.id};
  Expr total = a.shape[dim];
  bool stack = pool.Roll(4) == 0;
  for (int i = 0; i < 1 + pool.Roll(3); ++i) {
    const Record* other = pool.PickWhere([&](const Record& r) { return Joins(a.shape, r.shape, stack ? -1 : dim); });
    if (other == nullptr) continue;
    ids.push_back(other->id);
    total = total + other->shape[dim];
  }
  Shape shape = a.shape;
  if (stack) {
    shape.insert(shape.begin() + dim, Expr(static_cast<int64_t>(ids.size())));
    return Call{"aten.stack.default", {Arg("tensors", Refs(ids)), Arg("dim", Int(dim))}, {shape}};
  }
  shape[dim] = total;
  return Call{"aten.cat.default", {Arg("tensors", Refs(ids)), Arg("dim", Int(dim))}, {shape}};
}

std::optional<Call> ProposeRepeat(ValuePool& pool) {
  const Record& x = pool.Pick();
  Shape shape = x.shape;
  if (pool.Roll(2)) {
    std::vector<Expr> sizes = x.shape;
    for (Expr& size : sizes) {
      if (size == Expr(1)) size = pool.symbols().empty() ? Expr(1 + pool.Roll(5)) : pool.symbols()[0];
    }
    if (pool.Roll(2)) sizes.insert(sizes.begin(), Expr(2));
    return Call{"aten.expand.default", {Arg("self", Ref(x)), Arg("size", sizes)}, {sizes}};
  }
  std::vector<int64_t> times;
  if (pool.Roll(3) == 0) times.push_back(2), shape.insert(shape.begin(), Expr(1));
  for (int d = 0; d < x.rank(); ++d) times.push_back(1 + pool.Roll(2));
  for (size_t d = 0; d < times.size(); ++d) shape[d] = shape[d] * times[d];
  return Call{"aten.repeat.default", {Arg("self", Ref(x)), Arg("repeats", Ints(times))}, {shape}};
}

std::optional<Call> ProposePad(ValuePool& pool) {
  const Record* x = PickRank(pool, 1);
  if (x == nullptr) return std::nullopt;
  Shape shape = x->shape;
  std::vector<int64_t> pad;
  for (int d = x->rank() - 1; d >= std::max(0, x->rank() - 2); --d) {
    int64_t low = pool.Roll(3), high = pool.Roll(3);
    auto size = shape[d].constant();
    if (pool.Roll(4) == 0 && size && *size > 2) low = -1;
    pad.insert(pad.end(), {low, high});
    shape[d] = shape[d] + low + high;
  }
  return Call{"aten.constant_pad_nd.default",
              {Arg("self", Ref(*x)), Arg("pad", Ints(pad)), Arg("value", pool.Of({0.0, 0.5, -1.0}))},
              {shape}};
}

}  // namespace preheat::testing
