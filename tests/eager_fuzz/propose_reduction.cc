// Reductions, positions of extremes, scans, softmax and norms.

#include <cstdint>

#include "tests/eager_fuzz/proposals.h"

namespace preheat::testing {

using capture::Argument;
using capture::NamedArgument;

namespace {

// Sorted dimensions, at least one.
std::vector<int64_t> SomeDims(ValuePool& pool, int rank) {
  std::vector<int64_t> dims;
  for (int d = 0; d < rank; ++d) {
    if (pool.Roll(2)) dims.push_back(d);
  }
  if (dims.empty()) dims.push_back(pool.Roll(rank));
  return dims;
}

Shape Without(Shape shape, const std::vector<int64_t>& dims, bool keep) {
  for (size_t i = dims.size(); i-- > 0;) {
    if (keep) {
      shape[dims[i]] = 1;
    } else {
      shape.erase(shape.begin() + dims[i]);
    }
  }
  return shape;
}

}  // namespace

std::optional<Call> ProposeReduce(ValuePool& pool) {
  const Record* x = PickRank(pool, 1);
  if (x == nullptr) return std::nullopt;
  std::vector<int64_t> dims = SomeDims(pool, x->rank());
  bool keep = pool.Roll(2) != 0;
  Shape shape = Without(x->shape, dims, keep);
  std::vector<int64_t> spelled = dims;
  if (pool.Roll(3) == 0) spelled[0] -= x->rank();
  std::vector<NamedArgument> many = {Arg("self", Ref(*x)), Arg("dim", Ints(spelled)), Arg("keepdim", keep)};
  int64_t one = dims[0];
  std::vector<NamedArgument> single = {Arg("self", Ref(*x)), Arg("dim", Int(spelled[0])), Arg("keepdim", keep)};
  Shape single_shape = Without(x->shape, {one}, keep);
  switch (pool.Roll(11)) {
    case 0:
    case 1: return Call{"aten.sum.dim_IntList", many, {shape}};
    case 2: return Call{"aten.mean.dim", many, {shape}};
    case 3: return Call{"aten.amax.default", many, {shape}};
    case 4: return Call{"aten.amin.default", many, {shape}};
    case 5: return Call{"aten.any.dims", many, {shape}, false, true};
    case 6: return Call{"aten.all.dim", single, {single_shape}, false, true};
    case 7: return Call{"aten.prod.dim_int", single, {single_shape}};
    case 8:
      return Call{
          "aten.var.correction",
          {Arg("self", Ref(*x)), Arg("dim", Ints(spelled)), Key("correction", Int(pool.Roll(2))), Key("keepdim", keep)},
          {shape},
          false,
          false,
          true};
    case 9: return Call{"aten.logsumexp.default", many, {shape}, false, false, true};
    default: return Call{"aten.sum.default", {Arg("self", Ref(*x))}, {Shape{}}};
  }
}

std::optional<Call> ProposePosition(ValuePool& pool) {
  const Record* x = PickRank(pool, 1);
  if (x == nullptr) return std::nullopt;
  int dim = pool.Roll(x->rank());
  bool keep = pool.Roll(2) != 0;
  Shape shape = Without(x->shape, {dim}, keep);
  std::vector<NamedArgument> args = {Arg("self", Ref(*x)), Arg("dim", Int(dim)), Arg("keepdim", keep)};
  switch (pool.Roll(4)) {
    case 0: return Call{"aten.argmax.default", args, {shape}, false, true};
    case 1: return Call{"aten.argmin.default", args, {shape}, false, true};
    case 2: return Call{"aten.max.dim", args, {shape, shape}, false, true};
    default: return Call{"aten.min.dim", args, {shape, shape}, false, true};
  }
}

std::optional<Call> ProposeScan(ValuePool& pool) {
  const Record* x = PickRank(pool, 1);
  if (x == nullptr) return std::nullopt;
  std::vector<NamedArgument> args = {Arg("self", Ref(*x)), Arg("dim", Int(pool.Roll(x->rank())))};
  switch (pool.Roll(4)) {
    case 0: return Call{"aten.cumsum.default", args, {x->shape}};
    case 1: return Call{"aten.cumprod.default", args, {x->shape}};
    case 2: return Call{"aten.cummax.default", args, {x->shape, x->shape}, false, true};
    default: return Call{"aten.cummin.default", args, {x->shape, x->shape}, false, true};
  }
}

std::optional<Call> ProposeNormalize(ValuePool& pool) {
  const Record* x = pool.PickWhere([](const Record& r) { return r.floating() && r.rank() >= 1; });
  if (x == nullptr) return std::nullopt;
  const Record& a = *x;
  int dim = pool.Roll(a.rank());
  switch (pool.Roll(4)) {
    case 0:
      return Call{"aten._softmax.default",
                  {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("half_to_float", false)},
                  {a.shape},
                  false,
                  false,
                  true};
    case 1:
      return Call{"aten._log_softmax.default",
                  {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("half_to_float", false)},
                  {a.shape},
                  false,
                  false,
                  true};
    case 2: {
      Shape inner(a.shape.begin() + dim, a.shape.end());
      Shape outer = a.shape;
      for (size_t d = dim; d < outer.size(); ++d) outer[d] = 1;
      const Record* w = pool.Roll(2) ? pool.Input(inner, a.dtype) : nullptr;
      std::vector<NamedArgument> args = {Arg("input", Ref(a)), Arg("normalized_shape", inner)};
      args.push_back(Arg("weight", w != nullptr ? Ref(*w) : Argument(capture::None{})));
      args.push_back(Arg("bias", capture::None{}));
      args.push_back(Arg("eps", 0.1));
      return Call{"aten.native_layer_norm.default", args, {a.shape, outer, outer}, false, false, true, {0}};
    }
    default: {
      Shape inner(a.shape.begin() + dim, a.shape.end());
      const Record* w = pool.Input(inner, a.dtype);
      if (w == nullptr) return std::nullopt;
      return Call{"aten.rms_norm.default",
                  {Arg("input", Ref(a)), Arg("normalized_shape", inner), Arg("weight", Ref(*w)), Arg("eps", 0.1)},
                  {a.shape},
                  false,
                  false,
                  true};
    }
  }
}

}  // namespace preheat::testing
