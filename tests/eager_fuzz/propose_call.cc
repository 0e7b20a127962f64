// The families of operators, one function each.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/eager_fuzz/value_pool.h"

namespace preheat::testing {

using capture::Argument;
using capture::NamedArgument;
using capture::ValueRef;
using ir::DType;
using ir::Expr;
using Kind = RandomProgram::Values::Kind;

namespace {

NamedArgument Arg(std::string name, Argument value) { return {std::move(name), std::move(value), false}; }
NamedArgument Key(std::string name, Argument value) { return {std::move(name), std::move(value), true}; }
Argument Int(int64_t value) { return Expr(value); }
Argument Ints(std::vector<int64_t> values) { return std::vector<Expr>(values.begin(), values.end()); }
Argument Ref(const Record& r) { return ValueRef{r.id}; }
Argument Refs(const std::vector<int>& ids) {
  std::vector<std::optional<ValueRef>> list;
  for (int id : ids) list.push_back(ValueRef{id});
  return list;
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

bool Joins(const Shape& a, const Shape& b, int dim) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    if (static_cast<int>(d) != dim && a[d] != b[d]) return false;
  }
  return true;
}

class Proposer {
 public:
  explicit Proposer(ValuePool& pool) : pool_(pool) {}

  std::optional<Call> Any() {
    switch (pool_.Roll(30)) {
      case 0:
      case 1:
      case 2: return Function();
      case 3: return Step();
      case 4:
      case 5:
      case 6: return Arithmetic();
      case 7: return WithNumber();
      case 8: return Comparison();
      case 9: return Bits();
      case 10: return Three();
      case 11:
      case 12: return Reduce();
      case 13: return Position();
      case 14: return Scan();
      case 15: return Normalize();
      case 16: return Permute();
      case 17: return Reshape();
      case 18: return Slice();
      case 19: return Join();
      case 20: return Repeat();
      case 21: return Pad();
      case 22:
      case 23: return Cast();
      case 24: return Lookup();
      case 25: return Scatter();
      case 26: return Sort();
      case 27: return Product();
      case 28: return Convolve();
      default: return Pool();
    }
  }

 private:
  const Record* PickFloat() {
    return pool_.PickWhere([](const Record& r) { return r.floating(); });
  }
  const Record* PickRank(int least) {
    return pool_.PickWhere([&](const Record& r) { return r.rank() >= least; });
  }

  // A shape that broadcasts to this one.
  Shape Narrower(Shape shape) {
    if (!shape.empty() && pool_.Roll(3) == 0)
      shape.erase(shape.begin(), shape.begin() + 1 + pool_.Roll(static_cast<int>(shape.size())));
    for (Expr& size : shape) {
      if (pool_.Roll(3) == 0) size = 1;
    }
    return shape;
  }

  // Something to combine `a` with: another value, or a new input whose shape broadcasts.
  const Record* PartnerOf(const Record& a) {
    const Record* other = pool_.PickWhere([&](const Record& r) { return r.id != a.id && Broadcast(a.shape, r.shape); });
    if (other != nullptr && pool_.Roll(4) != 0) return other;
    return pool_.Input(Narrower(a.shape), pool_.Roll(3) == 0 ? pool_.NewType() : a.dtype);
  }

  std::optional<Call> Function() {
    const Record* x = pool_.Roll(6) == 0 ? &pool_.Pick() : PickFloat();
    if (x == nullptr) return std::nullopt;
    const char* op = pool_.Of(
        {"exp",   "tanh", "erf",   "sin",         "cos",         "atan",     "sigmoid",    "silu",  "gelu", "sqrt",
         "rsqrt", "log",  "log1p", "expm1",       "exp2",        "log2",     "sinh",       "asinh", "tan",  "softplus",
         "mish",  "elu",  "selu",  "log_sigmoid", "hardsigmoid", "softsign", "reciprocal", "erfc",  "acos", "lgamma"});
    return Call{absl::StrCat("aten.", op, ".default"), {Arg("self", Ref(*x))}, {x->shape}, false, false, true};
  }

  // Exact operators, and those that jump.
  std::optional<Call> Step() {
    const Record& x = pool_.Pick();
    const char* op = pool_.Of({"neg", "abs", "relu", "square", "floor", "ceil", "trunc", "round", "sign", "logical_not",
                               "isnan", "isinf", "hardtanh", "relu6", "frac", "bitwise_not", "sgn", "signbit"});
    bool smooth = op == std::string("neg") || op == std::string("abs") || op == std::string("relu") ||
                  op == std::string("square") || op == std::string("hardtanh") || op == std::string("relu6");
    return Call{absl::StrCat("aten.", op, ".default"), {Arg("self", Ref(x))}, {x.shape}, false, !smooth};
  }

  std::optional<Call> Arithmetic() {
    const Record& a = pool_.Pick();
    const Record* b = PartnerOf(a);
    if (b == nullptr) return std::nullopt;
    auto shape = Broadcast(a.shape, b->shape);
    if (!shape) return std::nullopt;
    std::vector<NamedArgument> args = {Arg("self", Ref(a)), Arg("other", Ref(*b))};
    if (pool_.Roll(2)) std::swap(args[0].value, args[1].value);
    const char* op = pool_.Of({"add.Tensor", "sub.Tensor", "mul.Tensor", "add.Tensor", "mul.Tensor", "div.Tensor",
                               "maximum.default", "minimum.default", "fmax.default", "fmin.default", "atan2.default",
                               "pow.Tensor_Tensor", "remainder.Tensor", "fmod.Tensor", "floor_divide.default",
                               "copysign.Tensor", "hypot.default", "logaddexp.default", "xlogy.Tensor"});
    std::string name = op;
    if ((name == "add.Tensor" || name == "sub.Tensor") && pool_.Roll(3) == 0)
      args.push_back(Key("alpha", Int(1 + pool_.Roll(3))));
    bool jumps = name == "remainder.Tensor" || name == "fmod.Tensor" || name == "floor_divide.default" ||
                 name == "copysign.Tensor" || name == "atan2.default";
    bool function = jumps || name == "pow.Tensor_Tensor" || name == "hypot.default" || name == "logaddexp.default" ||
                    name == "xlogy.Tensor";
    return Call{absl::StrCat("aten.", op), args, {*shape}, false, jumps, function && name != "copysign.Tensor"};
  }

  std::optional<Call> WithNumber() {
    const Record& x = pool_.Pick();
    Argument number = pool_.Roll(2) ? Int(pool_.Roll(7) - 3) : Argument(pool_.Of({0.5, -1.5, 2.0, 0.1, 3.0, 0.0}));
    const char* op =
        pool_.Of({"add.Tensor", "mul.Tensor", "sub.Tensor", "div.Tensor", "pow.Tensor_Scalar", "rsub.Scalar",
                  "clamp_min.default", "clamp_max.default", "leaky_relu.default", "masked_fill"});
    std::string name = op;
    if (name == "masked_fill") {
      const Record* mask = pool_.Input(Narrower(x.shape), DType::kBool);
      if (mask == nullptr) return std::nullopt;
      return Call{
          "aten.masked_fill.Scalar", {Arg("self", Ref(x)), Arg("mask", Ref(*mask)), Arg("value", number)}, {x.shape}};
    }
    std::string second = name == "pow.Tensor_Scalar"    ? "exponent"
                         : name == "clamp_min.default"  ? "min"
                         : name == "clamp_max.default"  ? "max"
                         : name == "leaky_relu.default" ? "negative_slope"
                                                        : "other";
    return Call{absl::StrCat("aten.", op),  {Arg("self", Ref(x)), Arg(second, number)}, {x.shape}, false, false,
                name == "pow.Tensor_Scalar"};
  }

  std::optional<Call> Comparison() {
    const Record& a = pool_.Pick();
    const char* op = pool_.Of({"eq", "ne", "lt", "le", "gt", "ge"});
    if (pool_.Roll(3) == 0) {
      return Call{absl::StrCat("aten.", op, ".Scalar"),
                  {Arg("self", Ref(a)), Arg("other", pool_.Of({0.5, 0.0, 1.0}))},
                  {a.shape},
                  false,
                  true};
    }
    const Record* b = PartnerOf(a);
    if (b == nullptr) return std::nullopt;
    auto shape = Broadcast(a.shape, b->shape);
    if (!shape) return std::nullopt;
    return Call{
        absl::StrCat("aten.", op, ".Tensor"), {Arg("self", Ref(a)), Arg("other", Ref(*b))}, {*shape}, false, true};
  }

  std::optional<Call> Bits() {
    const Record* x = pool_.PickWhere([](const Record& r) { return !r.floating(); });
    if (x == nullptr) return std::nullopt;
    const Record& a = *x;
    const Record* b = pool_.PickWhere([&](const Record& r) { return !r.floating() && Broadcast(a.shape, r.shape); });
    if (b == nullptr) return std::nullopt;
    const char* op = pool_.Of({"bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "logical_and.default",
                               "logical_or.default", "logical_xor.default", "bitwise_left_shift.Tensor",
                               "bitwise_right_shift.Tensor"});
    return Call{
        absl::StrCat("aten.", op), {Arg("self", Ref(a)), Arg("other", Ref(*b))}, {*Broadcast(a.shape, b->shape)}};
  }

  std::optional<Call> Three() {
    const Record& a = pool_.Pick();
    const Record* second = PartnerOf(a);
    if (second == nullptr) return std::nullopt;
    const Record& b = *second;
    auto shape = Broadcast(a.shape, b.shape);
    if (!shape) return std::nullopt;
    if (pool_.Roll(2) == 0) {
      const Record* c =
          pool_.PickWhere([&](const Record& r) { return r.dtype == DType::kBool && Broadcast(*shape, r.shape); });
      if (c == nullptr) c = pool_.Input(Narrower(*shape), DType::kBool);
      if (c == nullptr) return std::nullopt;
      return Call{"aten.where.self",
                  {Arg("condition", Ref(*c)), Arg("self", Ref(a)), Arg("other", Ref(b))},
                  {*Broadcast(*shape, c->shape)}};
    }
    const Record* c = pool_.Input(Narrower(*shape), a.dtype);
    if (c == nullptr) return std::nullopt;
    Shape all = *Broadcast(*shape, c->shape);
    switch (pool_.Roll(4)) {
      case 0:
        return Call{"aten.addcmul.default",
                    {Arg("self", Ref(a)), Arg("tensor1", Ref(b)), Arg("tensor2", Ref(*c)), Key("value", 0.5)},
                    {all}};
      case 1: return Call{"aten.lerp.Tensor", {Arg("self", Ref(a)), Arg("end", Ref(b)), Arg("weight", Ref(*c))}, {all}};
      case 2: return Call{"aten.clamp.Tensor", {Arg("self", Ref(a)), Arg("min", Ref(b)), Arg("max", Ref(*c))}, {all}};
      default:
        return Call{
            "aten.addcdiv.default", {Arg("self", Ref(a)), Arg("tensor1", Ref(b)), Arg("tensor2", Ref(*c))}, {all}};
    }
  }

  // Sorted dimensions, at least one.
  std::vector<int64_t> SomeDims(int rank) {
    std::vector<int64_t> dims;
    for (int d = 0; d < rank; ++d) {
      if (pool_.Roll(2)) dims.push_back(d);
    }
    if (dims.empty()) dims.push_back(pool_.Roll(rank));
    return dims;
  }

  std::optional<Call> Reduce() {
    const Record* x = PickRank(1);
    if (x == nullptr) return std::nullopt;
    std::vector<int64_t> dims = SomeDims(x->rank());
    bool keep = pool_.Roll(2) != 0;
    Shape shape = Without(x->shape, dims, keep);
    std::vector<int64_t> spelled = dims;
    if (pool_.Roll(3) == 0) spelled[0] -= x->rank();
    std::vector<NamedArgument> many = {Arg("self", Ref(*x)), Arg("dim", Ints(spelled)), Arg("keepdim", keep)};
    int64_t one = dims[0];
    std::vector<NamedArgument> single = {Arg("self", Ref(*x)), Arg("dim", Int(spelled[0])), Arg("keepdim", keep)};
    Shape single_shape = Without(x->shape, {one}, keep);
    switch (pool_.Roll(11)) {
      case 0:
      case 1: return Call{"aten.sum.dim_IntList", many, {shape}};
      case 2: return Call{"aten.mean.dim", many, {shape}};
      case 3: return Call{"aten.amax.default", many, {shape}};
      case 4: return Call{"aten.amin.default", many, {shape}};
      case 5: return Call{"aten.any.dims", many, {shape}, false, true};
      case 6: return Call{"aten.all.dim", single, {single_shape}, false, true};
      case 7: return Call{"aten.prod.dim_int", single, {single_shape}};
      case 8:
        return Call{"aten.var.correction",
                    {Arg("self", Ref(*x)), Arg("dim", Ints(spelled)), Key("correction", Int(pool_.Roll(2))),
                     Key("keepdim", keep)},
                    {shape},
                    false,
                    false,
                    true};
      case 9: return Call{"aten.logsumexp.default", many, {shape}, false, false, true};
      default: return Call{"aten.sum.default", {Arg("self", Ref(*x))}, {Shape{}}};
    }
  }

  std::optional<Call> Position() {
    const Record* x = PickRank(1);
    if (x == nullptr) return std::nullopt;
    int dim = pool_.Roll(x->rank());
    bool keep = pool_.Roll(2) != 0;
    Shape shape = Without(x->shape, {dim}, keep);
    std::vector<NamedArgument> args = {Arg("self", Ref(*x)), Arg("dim", Int(dim)), Arg("keepdim", keep)};
    switch (pool_.Roll(4)) {
      case 0: return Call{"aten.argmax.default", args, {shape}, false, true};
      case 1: return Call{"aten.argmin.default", args, {shape}, false, true};
      case 2: return Call{"aten.max.dim", args, {shape, shape}, false, true};
      default: return Call{"aten.min.dim", args, {shape, shape}, false, true};
    }
  }

  std::optional<Call> Scan() {
    const Record* x = PickRank(1);
    if (x == nullptr) return std::nullopt;
    std::vector<NamedArgument> args = {Arg("self", Ref(*x)), Arg("dim", Int(pool_.Roll(x->rank())))};
    switch (pool_.Roll(4)) {
      case 0: return Call{"aten.cumsum.default", args, {x->shape}};
      case 1: return Call{"aten.cumprod.default", args, {x->shape}};
      case 2: return Call{"aten.cummax.default", args, {x->shape, x->shape}, false, true};
      default: return Call{"aten.cummin.default", args, {x->shape, x->shape}, false, true};
    }
  }

  std::optional<Call> Normalize() {
    const Record* x = pool_.PickWhere([](const Record& r) { return r.floating() && r.rank() >= 1; });
    if (x == nullptr) return std::nullopt;
    const Record& a = *x;
    int dim = pool_.Roll(a.rank());
    switch (pool_.Roll(4)) {
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
        const Record* w = pool_.Roll(2) ? pool_.Input(inner, a.dtype) : nullptr;
        std::vector<NamedArgument> args = {Arg("input", Ref(a)), Arg("normalized_shape", inner)};
        args.push_back(Arg("weight", w != nullptr ? Ref(*w) : Argument(capture::None{})));
        args.push_back(Arg("bias", capture::None{}));
        args.push_back(Arg("eps", 0.1));
        return Call{"aten.native_layer_norm.default", args, {a.shape, outer, outer}, false, false, true, {0}};
      }
      default: {
        Shape inner(a.shape.begin() + dim, a.shape.end());
        const Record* w = pool_.Input(inner, a.dtype);
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

  std::optional<Call> Permute() {
    const Record* x = PickRank(1);
    if (x == nullptr) return std::nullopt;
    int rank = x->rank(), dim = pool_.Roll(rank);
    Shape shape = x->shape;
    switch (pool_.Roll(5)) {
      case 0: {
        std::vector<int64_t> dims;
        for (size_t d : pool_.Shuffled(rank))
          dims.push_back(static_cast<int64_t>(d)), shape[dims.size() - 1] = x->shape[d];
        return Call{"aten.permute.default", {Arg("self", Ref(*x)), Arg("dims", Ints(dims))}, {shape}};
      }
      case 1: {
        int other = pool_.Roll(rank);
        std::swap(shape[dim], shape[other]);
        return Call{"aten.transpose.int",
                    {Arg("self", Ref(*x)), Arg("dim0", Int(dim)), Arg("dim1", Int(other - rank))},
                    {shape}};
      }
      case 2: return Call{"aten.flip.default", {Arg("self", Ref(*x)), Arg("dims", Ints({dim}))}, {shape}};
      case 3:
        return Call{"aten.roll.default",
                    {Arg("self", Ref(*x)), Arg("shifts", Ints({pool_.Roll(7) - 3})), Arg("dims", Ints({dim}))},
                    {shape}};
      default:
        if (rank < 2) return std::nullopt;
        return Call{pool_.Roll(2) ? "aten.tril.default" : "aten.triu.default",
                    {Arg("self", Ref(*x)), Arg("diagonal", Int(pool_.Roll(5) - 2))},
                    {shape}};
    }
  }

  std::optional<Call> Reshape() {
    const Record& x = pool_.Pick();
    int rank = x.rank();
    Shape shape = x.shape;
    switch (pool_.Roll(5)) {
      case 0: {
        int dim = pool_.Roll(rank + 1);
        shape.insert(shape.begin() + dim, Expr(1));
        return Call{"aten.unsqueeze.default", {Arg("self", Ref(x)), Arg("dim", Int(dim))}, {shape}};
      }
      case 1: {
        if (rank == 0) return std::nullopt;
        int dim = pool_.Roll(rank);
        if (shape[dim] == Expr(1)) shape.erase(shape.begin() + dim);
        return Call{"aten.squeeze.dim", {Arg("self", Ref(x)), Arg("dim", Int(dim))}, {shape}};
      }
      case 2: {
        shape = {ir::NumElements(x.shape)};
        return Call{"aten.reshape.default", {Arg("self", Ref(x)), Arg("shape", Ints({-1}))}, {shape}};
      }
      case 3: {  // two dimensions become one
        if (rank < 2) return std::nullopt;
        int dim = pool_.Roll(rank - 1);
        shape[dim] = shape[dim] * shape[dim + 1];
        shape.erase(shape.begin() + dim + 1);
        return Call{"aten.reshape.default", {Arg("self", Ref(x)), Arg("shape", shape)}, {shape}};
      }
      default: {  // one becomes two
        if (rank == 0) return std::nullopt;
        int dim = pool_.Roll(rank);
        auto size = shape[dim].constant();
        int64_t factor = pool_.Of({2, 3, 4});
        if (!size || *size % factor != 0) return std::nullopt;
        shape[dim] = *size / factor;
        shape.insert(shape.begin() + dim, Expr(factor));
        return Call{"aten.view.default", {Arg("self", Ref(x)), Arg("size", shape)}, {shape}};
      }
    }
  }

  std::optional<Call> Slice() {
    const Record* x = PickRank(1);
    if (x == nullptr) return std::nullopt;
    int dim = pool_.Roll(x->rank());
    Shape shape = x->shape;
    auto size = shape[dim].constant();
    if (pool_.Roll(4) == 0) {
      if (!size) return std::nullopt;
      int64_t at = pool_.Roll(static_cast<int>(std::max<int64_t>(*size, 1)));
      shape.erase(shape.begin() + dim);
      return Call{"aten.select.int",
                  {Arg("self", Ref(*x)), Arg("dim", Int(dim)), Arg("index", Int(at - (pool_.Roll(2) ? *size : 0)))},
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
    int64_t start = pool_.Roll(static_cast<int>(*size) + 1),
            end = start + pool_.Roll(static_cast<int>(*size - start) + 1);
    int64_t step = 1 + pool_.Roll(3);
    shape[dim] = (end - start + step - 1) / step;
    return Call{"aten.slice.Tensor",
                {Arg("self", Ref(*x)), Arg("dim", Int(dim)), Arg("start", Int(start)), Arg("end", Int(end)),
                 Arg("step", Int(step))},
                {shape}};
  }

  std::optional<Call> Join() {
    const Record* x = PickRank(1);
    if (x == nullptr) return std::nullopt;
    const Record& a = *x;
    int dim = pool_.Roll(a.rank());
    if (pool_.Roll(4) == 0) return Split(a, dim);
    std::vector<int> ids = {a.id};
    Expr total = a.shape[dim];
    bool stack = pool_.Roll(4) == 0;
    for (int i = 0; i < 1 + pool_.Roll(3); ++i) {
      const Record* other = pool_.PickWhere([&](const Record& r) { return Joins(a.shape, r.shape, stack ? -1 : dim); });
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

  std::optional<Call> Split(const Record& a, int dim) {
    auto size = a.shape[dim].constant();
    if (!size || *size < 2 || *size > 8) return std::nullopt;
    Call call{"aten.split.Tensor", {}, {}, true};
    int64_t chunk = 1 + pool_.Roll(static_cast<int>(*size));
    for (int64_t at = 0; at < *size; at += chunk) {
      call.shapes.push_back(a.shape);
      call.shapes.back()[dim] = std::min(chunk, *size - at);
    }
    call.args = {Arg("self", Ref(a)), Arg("split_size", Int(chunk)), Arg("dim", Int(dim))};
    return call;
  }

  std::optional<Call> Repeat() {
    const Record& x = pool_.Pick();
    Shape shape = x.shape;
    if (pool_.Roll(2)) {
      std::vector<Expr> sizes = x.shape;
      for (Expr& size : sizes) {
        if (size == Expr(1)) size = pool_.symbols().empty() ? Expr(1 + pool_.Roll(5)) : pool_.symbols()[0];
      }
      if (pool_.Roll(2)) sizes.insert(sizes.begin(), Expr(2));
      return Call{"aten.expand.default", {Arg("self", Ref(x)), Arg("size", sizes)}, {sizes}};
    }
    std::vector<int64_t> times;
    if (pool_.Roll(3) == 0) times.push_back(2), shape.insert(shape.begin(), Expr(1));
    for (int d = 0; d < x.rank(); ++d) times.push_back(1 + pool_.Roll(2));
    for (size_t d = 0; d < times.size(); ++d) shape[d] = shape[d] * times[d];
    return Call{"aten.repeat.default", {Arg("self", Ref(x)), Arg("repeats", Ints(times))}, {shape}};
  }

  std::optional<Call> Pad() {
    const Record* x = PickRank(1);
    if (x == nullptr) return std::nullopt;
    Shape shape = x->shape;
    std::vector<int64_t> pad;
    for (int d = x->rank() - 1; d >= std::max(0, x->rank() - 2); --d) {
      int64_t low = pool_.Roll(3), high = pool_.Roll(3);
      auto size = shape[d].constant();
      if (pool_.Roll(4) == 0 && size && *size > 2) low = -1;
      pad.insert(pad.end(), {low, high});
      shape[d] = shape[d] + low + high;
    }
    return Call{"aten.constant_pad_nd.default",
                {Arg("self", Ref(*x)), Arg("pad", Ints(pad)), Arg("value", pool_.Of({0.0, 0.5, -1.0}))},
                {shape}};
  }

  std::optional<Call> Cast() {
    const Record& x = pool_.Pick();
    DType to = pool_.NewType();
    bool jumps = !ir::IsFloat(to);
    return Call{"aten._to_copy.default", {Arg("self", Ref(x)), Key("dtype", to)}, {x.shape}, false, jumps};
  }

  std::optional<Call> Lookup() {
    const Record* x = PickRank(1);
    if (x == nullptr) return std::nullopt;
    const Record& a = *x;
    int dim = pool_.Roll(a.rank());
    if (a.eager.shape[dim] == 0) return std::nullopt;
    Shape shape = a.shape;
    switch (pool_.Roll(4)) {
      case 0: {
        const Record* at = pool_.Input({Expr(1 + pool_.Roll(6))}, pool_.Roll(2) ? DType::kI64 : DType::kI32,
                                       Kind::kIndex, a.shape[dim]);
        if (at == nullptr) return std::nullopt;
        shape[dim] = at->shape[0];
        return Call{
            "aten.index_select.default", {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("index", Ref(*at))}, {shape}};
      }
      case 1: {
        shape[dim] = 1 + pool_.Roll(6);
        const Record* at = pool_.Input(shape, DType::kI64, Kind::kIndex, a.shape[dim]);
        if (at == nullptr) return std::nullopt;
        return Call{
            "aten.gather.default", {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("index", Ref(*at))}, {shape}};
      }
      case 2: {
        if (a.rank() != 2) return std::nullopt;
        Shape places = {Expr(1 + pool_.Roll(3)), Expr(1 + pool_.Roll(4))};
        const Record* at = pool_.Input(places, DType::kI64, Kind::kIndex, a.shape[0]);
        if (at == nullptr) return std::nullopt;
        return Call{"aten.embedding.default",
                    {Arg("weight", Ref(a)), Arg("indices", Ref(*at))},
                    {{places[0], places[1], a.shape[1]}}};
      }
      default: {
        const Record* at = pool_.Input({Expr(1 + pool_.Roll(6))}, DType::kI64, Kind::kIndex, a.shape[dim]);
        if (at == nullptr) return std::nullopt;
        std::vector<std::optional<ValueRef>> indices(dim);
        indices.push_back(ValueRef{at->id});
        shape[dim] = at->shape[0];
        return Call{"aten.index.Tensor", {Arg("self", Ref(a)), Arg("indices", indices)}, {shape}};
      }
    }
  }

  std::optional<Call> Scatter() {
    const Record* x = PickRank(1);
    if (x == nullptr) return std::nullopt;
    const Record& a = *x;
    int dim = pool_.Roll(a.rank());
    if (a.eager.elements() == 0) return std::nullopt;
    Shape part = a.shape;
    part[dim] = 1 + pool_.Roll(5);
    if (pool_.Roll(2)) {
      const Record* at = pool_.Input({part[dim]}, DType::kI64, Kind::kIndex, a.shape[dim]);
      if (at == nullptr) return std::nullopt;
      const Record* source = pool_.Input(part, a.dtype);
      if (source == nullptr) return std::nullopt;
      return Call{"aten.index_add.default",
                  {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("index", Ref(*at)), Arg("source", Ref(*source))},
                  {a.shape}};
    }
    const Record* at = pool_.Input(part, DType::kI64, Kind::kIndex, a.shape[dim]);
    if (at == nullptr) return std::nullopt;
    if (pool_.Roll(3) == 0) {
      return Call{"aten.scatter.value",
                  {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("index", Ref(*at)), Arg("value", 0.5)},
                  {a.shape}};
    }
    const Record* source = pool_.Input(part, a.dtype);
    if (source == nullptr) return std::nullopt;
    if (pool_.Roll(2)) {
      return Call{"aten.scatter_add.default",
                  {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("index", Ref(*at)), Arg("src", Ref(*source))},
                  {a.shape}};
    }
    return Call{"aten.scatter_reduce.two",
                {Arg("self", Ref(a)), Arg("dim", Int(dim)), Arg("index", Ref(*at)), Arg("src", Ref(*source)),
                 Arg("reduce", std::string(pool_.Of({"sum", "amax", "amin", "prod"}))),
                 Key("include_self", pool_.Roll(2) != 0)},
                {a.shape}};
  }

  std::optional<Call> Sort() {
    const Record* x = PickRank(1);
    if (x == nullptr) return std::nullopt;
    int dim = pool_.Roll(x->rank());
    if (pool_.Roll(2)) {
      return Call{
          "aten.sort.stable",
          {Arg("self", Ref(*x)), Key("stable", true), Key("dim", Int(dim)), Key("descending", pool_.Roll(2) != 0)},
          {x->shape, x->shape},
          false,
          true};
    }
    auto size = x->shape[dim].constant();
    if (!size || *size < 1) return std::nullopt;
    Shape shape = x->shape;
    shape[dim] = 1 + pool_.Roll(static_cast<int>(*size));
    // Among equals any position is right: the values alone are kept, and only they may be looked at.
    return Call{"aten.topk.default",
                {Arg("self", Ref(*x)), Arg("k", shape[dim]), Arg("dim", Int(dim)), Arg("largest", pool_.Roll(2) != 0)},
                {shape, shape},
                false,
                true,
                false,
                {0}};
  }

  std::optional<Call> Product() {
    const Record* x = pool_.PickWhere([](const Record& r) { return r.rank() >= 2 && r.dtype != DType::kBool; });
    if (x == nullptr) return std::nullopt;
    const Record& a = *x;
    Expr n = 1 + pool_.Roll(9);
    Shape weight = {a.shape.back(), n};
    switch (pool_.Roll(4)) {
      case 0: {
        std::swap(weight[0], weight[1]);
        const Record* w = pool_.Input(weight, a.dtype);
        if (w == nullptr) return std::nullopt;
        const Record* bias = pool_.Roll(2) ? pool_.Input({n}, a.dtype) : nullptr;
        Shape shape = a.shape;
        shape.back() = n;
        return Call{"aten.linear.default",
                    {Arg("input", Ref(a)), Arg("weight", Ref(*w)),
                     Arg("bias", bias != nullptr ? Ref(*bias) : Argument(capture::None{}))},
                    {shape}};
      }
      case 1: {
        if (a.rank() != 3) return std::nullopt;
        const Record* b = pool_.Input({a.shape[0], a.shape[2], n}, a.dtype);
        if (b == nullptr) return std::nullopt;
        return Call{"aten.bmm.default", {Arg("self", Ref(a)), Arg("mat2", Ref(*b))}, {{a.shape[0], a.shape[1], n}}};
      }
      case 2: {
        if (a.rank() != 2) return std::nullopt;
        const Record* b = pool_.Input(weight, a.dtype);
        if (b == nullptr) return std::nullopt;
        const Record* c = pool_.Input({n}, a.dtype);
        if (c == nullptr) return std::nullopt;
        return Call{
            "aten.addmm.default",
            {Arg("self", Ref(*c)), Arg("mat1", Ref(a)), Arg("mat2", Ref(*b)), Key("beta", 0.5), Key("alpha", 2.0)},
            {{a.shape[0], n}}};
      }
      default: {
        const Record* b = pool_.Input(weight, a.dtype);
        if (b == nullptr) return std::nullopt;
        Shape shape = a.shape;
        shape.back() = n;
        return Call{"aten.matmul.default", {Arg("self", Ref(a)), Arg("other", Ref(*b))}, {shape}};
      }
    }
  }

  std::optional<Call> Convolve() {
    const Record* x = pool_.PickWhere([](const Record& r) { return r.floating() && (r.rank() == 3 || r.rank() == 4); });
    if (x == nullptr) return std::nullopt;
    const Record& a = *x;
    auto channels = a.shape[1].constant();
    if (!channels || *channels < 1) return std::nullopt;
    size_t spatial = a.shape.size() - 2;
    int64_t groups = pool_.Roll(3) == 0 ? *channels : 1, out = groups * (1 + pool_.Roll(3));
    Shape filter = {Expr(out), Expr(*channels / groups)}, shape = {a.shape[0], Expr(out)};
    std::vector<int64_t> stride, padding, dilation;
    for (size_t d = 0; d < spatial; ++d) {
      int64_t k = 1 + pool_.Roll(3);
      stride.push_back(1 + pool_.Roll(2)), padding.push_back(pool_.Roll(2)), dilation.push_back(1 + pool_.Roll(2));
      filter.push_back(k);
      Expr rest = a.shape[2 + d] + 2 * padding[d] - dilation[d] * (k - 1) - 1;
      auto size = a.shape[2 + d].constant();
      if (!size || *size < dilation[d] * (k - 1) + 1) return std::nullopt;
      shape.push_back(Expr::FloorDiv(rest, stride[d]) + 1);
    }
    const Record* w = pool_.Input(filter, a.dtype);
    if (w == nullptr) return std::nullopt;
    const Record* bias = pool_.Roll(2) ? pool_.Input({Expr(out)}, a.dtype) : nullptr;
    return Call{spatial == 1 ? "aten.conv1d.default" : "aten.conv2d.default",
                {Arg("input", Ref(a)), Arg("weight", Ref(*w)),
                 Arg("bias", bias != nullptr ? Ref(*bias) : Argument(capture::None{})), Arg("stride", Ints(stride)),
                 Arg("padding", Ints(padding)), Arg("dilation", Ints(dilation)), Arg("groups", Int(groups))},
                {shape}};
  }

  std::optional<Call> Pool() {
    const Record* x = pool_.PickWhere([](const Record& r) { return r.floating() && r.rank() >= 3; });
    if (x == nullptr) return std::nullopt;
    Shape shape = x->shape;
    int64_t k = 1 + pool_.Roll(3), step = 1 + pool_.Roll(2);
    for (size_t d = shape.size() - 2; d < shape.size(); ++d) {
      auto size = shape[d].constant();
      if (!size || *size < k) return std::nullopt;
      shape[d] = (*size - k) / step + 1;
    }
    std::vector<NamedArgument> args = {Arg("self", Ref(*x)), Arg("kernel_size", Ints({k, k})),
                                       Arg("stride", Ints({step, step}))};
    if (pool_.Roll(2)) return Call{"aten.avg_pool2d.default", args, {shape}};
    return Call{"aten.max_pool2d_with_indices.default", args, {shape, shape}, false, true};
  }

  ValuePool& pool_;
};

}  // namespace

std::optional<Call> ProposeCall(ValuePool& pool) { return Proposer(pool).Any(); }

}  // namespace preheat::testing
