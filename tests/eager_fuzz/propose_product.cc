// Matrix products, convolutions and pooling.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tests/eager_fuzz/proposals.h"

namespace preheat::testing {

using capture::Argument;
using capture::NamedArgument;
using ir::DType;
using ir::Expr;

std::optional<Call> ProposeProduct(ValuePool& pool) {
  const Record* x = pool.PickWhere([](const Record& r) { return r.rank() >= 2 && r.dtype != DType::kBool; });
  if (x == nullptr) return std::nullopt;
  const Record& a = *x;
  Expr n = 1 + pool.Roll(9);
  Shape weight = {a.shape.back(), n};
  switch (pool.Roll(4)) {
    case 0: {
      std::swap(weight[0], weight[1]);
      const Record* w = pool.Input(weight, a.dtype);
      if (w == nullptr) return std::nullopt;
      const Record* bias = pool.Roll(2) ? pool.Input({n}, a.dtype) : nullptr;
      Shape shape = a.shape;
      shape.back() = n;
      return Call{"aten.linear.default",
                  {Arg("input", Ref(a)), Arg("weight", Ref(*w)),
                   Arg("bias", bias != nullptr ? Ref(*bias) : Argument(capture::None{}))},
                  {shape}};
    }
    case 1: {
      if (a.rank() != 3) return std::nullopt;
      const Record* b = pool.Input({a.shape[0], a.shape[2], n}, a.dtype);
      if (b == nullptr) return std::nullopt;
      return Call{"aten.bmm.default", {Arg("self", Ref(a)), Arg("mat2", Ref(*b))}, {{a.shape[0], a.shape[1], n}}};
    }
    case 2: {
      if (a.rank() != 2) return std::nullopt;
      const Record* b = pool.Input(weight, a.dtype);
      if (b == nullptr) return std::nullopt;
      const Record* c = pool.Input({n}, a.dtype);
      if (c == nullptr) return std::nullopt;
      return Call{
          "aten.addmm.default",
          {Arg("self", Ref(*c)), Arg("mat1", Ref(a)), Arg("mat2", Ref(*b)), Key("beta", 0.5), Key("alpha", 2.0)},
          {{a.shape[0], n}}};
    }
    default: {
      const Record* b = pool.Input(weight, a.dtype);
      if (b == nullptr) return std::nullopt;
      Shape shape = a.shape;
      shape.back() = n;
      return Call{"aten.matmul.default", {Arg("self", Ref(a)), Arg("other", Ref(*b))}, {shape}};
    }
  }
}

std::optional<Call> ProposeConvolve(ValuePool& pool) {
  const Record* x = pool.PickWhere([](const Record& r) { return r.floating() && (r.rank() == 3 || r.rank() == 4); });
  if (x == nullptr) return std::nullopt;
  const Record& a = *x;
  auto channels = a.shape[1].constant();
  if (!channels || *channels < 1) return std::nullopt;
  size_t spatial = a.shape.size() - 2;
  int64_t groups = pool.Roll(3) == 0 ? *channels : 1, out = groups * (1 + pool.Roll(3));
  Shape filter = {Expr(out), Expr(*channels / groups)}, shape = {a.shape[0], Expr(out)};
  std::vector<int64_t> stride, padding, dilation;
  for (size_t d = 0; d < spatial; ++d) {
    int64_t k = 1 + pool.Roll(3);
    stride.push_back(1 + pool.Roll(2)), padding.push_back(pool.Roll(2)), dilation.push_back(1 + pool.Roll(2));
    filter.push_back(k);
    Expr rest = a.shape[2 + d] + 2 * padding[d] - dilation[d] * (k - 1) - 1;
    auto size = a.shape[2 + d].constant();
    if (!size || *size < dilation[d] * (k - 1) + 1) return std::nullopt;
    shape.push_back(Expr::FloorDiv(rest, stride[d]) + 1);
  }
  const Record* w = pool.Input(filter, a.dtype);
  if (w == nullptr) return std::nullopt;
  const Record* bias = pool.Roll(2) ? pool.Input({Expr(out)}, a.dtype) : nullptr;
  return Call{spatial == 1 ? "aten.conv1d.default" : "aten.conv2d.default",
              {Arg("input", Ref(a)), Arg("weight", Ref(*w)),
               Arg("bias", bias != nullptr ? Ref(*bias) : Argument(capture::None{})), Arg("stride", Ints(stride)),
               Arg("padding", Ints(padding)), Arg("dilation", Ints(dilation)), Arg("groups", Int(groups))},
              {shape}};
}

std::optional<Call> ProposePool(ValuePool& pool) {
  const Record* x = pool.PickWhere([](const Record& r) { return r.floating() && r.rank() >= 3; });
  if (x == nullptr) return std::nullopt;
  Shape shape = x->shape;
  int64_t k = 1 + pool.Roll(3), step = 1 + pool.Roll(2);
  for (size_t d = shape.size() - 2; d < shape.size(); ++d) {
    auto size = shape[d].constant();
    if (!size || *size < k) return std::nullopt;
    shape[d] = (*size - k) / step + 1;
  }
  std::vector<NamedArgument> args = {Arg("self", Ref(*x)), Arg("kernel_size", Ints({k, k})),
                                     Arg("stride", Ints({step, step}))};
  if (pool.Roll(2)) return Call{"aten.avg_pool2d.default", args, {shape}};
  return Call{"aten.max_pool2d_with_indices.default", args, {shape, shape}, false, true};
}

}  // namespace preheat::testing
