// Lookups and scatters by indices; sorts.

#include "tests/eager_fuzz/proposals.h"

namespace preheat::testing {

using capture::ValueRef;
using ir::DType;
using ir::Expr;
using Kind = RandomProgram::Values::Kind;

std::optional<Call> ProposeLookup(ValuePool& pool) {
  const Record* x = PickRank(pool, 1);
  if (x == nullptr) return std::nullopt;
  const Record& a = *x;
  int dim = pool.Roll(a.rank());
  if (a.eager.shape[dim] == 0) return std::nullopt;
  Shape shape = a.shape;
  switch (pool.Roll(4)) {
    case 0: {
      const Record* at =
          pool.Input({Expr(1 + pool.Roll(6))}, pool.Roll(2) ? DType::kI64 : DType::kI32, Kind::kIndex, a.shape[dim]);
      if (at == nullptr) return std::nullopt;
      shape[dim] = at->shape[0];
      return Call{
          "aten.index_select.default", {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("index", Ref(*at))}, {shape}};
    }
    case 1: {
      shape[dim] = 1 + pool.Roll(6);
      const Record* at = pool.Input(shape, DType::kI64, Kind::kIndex, a.shape[dim]);
      if (at == nullptr) return std::nullopt;
      return Call{"aten.gather.default", {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("index", Ref(*at))}, {shape}};
    }
    case 2: {
      if (a.rank() != 2) return std::nullopt;
      Shape places = {Expr(1 + pool.Roll(3)), Expr(1 + pool.Roll(4))};
      const Record* at = pool.Input(places, DType::kI64, Kind::kIndex, a.shape[0]);
      if (at == nullptr) return std::nullopt;
      return Call{"aten.embedding.default",
                  {Arg("weight", Ref(a)), Arg("indices", Ref(*at))},
                  {{places[0], places[1], a.shape[1]}}};
    }
    default: {
      const Record* at = pool.Input({Expr(1 + pool.Roll(6))}, DType::kI64, Kind::kIndex, a.shape[dim]);
      if (at == nullptr) return std::nullopt;
      std::vector<std::optional<ValueRef>> indices(dim);
      indices.push_back(ValueRef{at->id});
      shape[dim] = at->shape[0];
      return Call{"aten.index.Tensor", {Arg("self", Ref(a)), Arg("indices", indices)}, {shape}};
    }
  }
}

std::optional<Call> ProposeScatter(ValuePool& pool) {
  const Record* x = PickRank(pool, 1);
  if (x == nullptr) return std::nullopt;
  const Record& a = *x;
  int dim = pool.Roll(a.rank());
  if (a.eager.elements() == 0) return std::nullopt;
  Shape part = a.shape;
  part[dim] = 1 + pool.Roll(5);
  if (pool.Roll(2)) {
    const Record* at = pool.Input({part[dim]}, DType::kI64, Kind::kIndex, a.shape[dim]);
    if (at == nullptr) return std::nullopt;
    const Record* source = pool.Input(part, a.dtype);
    if (source == nullptr) return std::nullopt;
    return Call{"aten.index_add.default",
                {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("index", Ref(*at)), Arg("source", Ref(*source))},
                {a.shape}};
  }
  const Record* at = pool.Input(part, DType::kI64, Kind::kIndex, a.shape[dim]);
  if (at == nullptr) return std::nullopt;
  if (pool.Roll(3) == 0) {
    return Call{"aten.scatter.value",
                {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("index", Ref(*at)), Arg("value", 0.5)},
                {a.shape}};
  }
  const Record* source = pool.Input(part, a.dtype);
  if (source == nullptr) return std::nullopt;
  if (pool.Roll(2)) {
    return Call{"aten.scatter_add.default",
                {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("index", Ref(*at)), Arg("src", Ref(*source))},
                {a.shape}};
  }
  return Call{
      "aten.scatter_reduce.two",
      {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("index", Ref(*at)), Arg("src", Ref(*source)),
       Arg("reduce", std::string(pool.Of({"sum", "amax", "amin", "prod"}))), Key("include_self", pool.Roll(2) != 0)},
      {a.shape}};
}

std::optional<Call> ProposeSort(ValuePool& pool) {
  const Record* x = PickRank(pool, 1);
  if (x == nullptr) return std::nullopt;
  int dim = pool.Roll(x->rank());
  if (pool.Roll(2)) {
    return Call{"aten.sort.stable",
                {Arg("self", Ref(*x)), Key("stable", true), Key("dim", Int(dim)), Key("descending", pool.Roll(2) != 0)},
                {x->shape, x->shape},
                false,
                true};
  }
  auto size = x->shape[dim].constant();
  if (!size || *size < 1) return std::nullopt;
  Shape shape = x->shape;
  shape[dim] = 1 + pool.Roll(static_cast<int>(*size));
  // Among equals any position is right: the values alone are kept, and only they may be looked at.
  return Call{"aten.topk.default",
              {Arg("self", Ref(*x)), Arg("k", shape[dim]), Arg("dim", Int(dim)), Arg("largest", pool.Roll(2) != 0)},
              {shape, shape},
              false,
              true,
              false,
              {0}};
}

}  // namespace preheat::testing
