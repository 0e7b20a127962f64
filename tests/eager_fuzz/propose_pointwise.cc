// Functions of one, two and three values, element by element, and casts.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/eager_fuzz/proposals.h"

namespace preheat::testing {

using capture::Argument;
using capture::NamedArgument;
using ir::DType;
using ir::Expr;

namespace {

// A shape that broadcasts to this one.
Shape Narrower(ValuePool& pool, Shape shape) {
  if (!shape.empty() && pool.Roll(3) == 0)
    shape.erase(shape.begin(), shape.begin() + 1 + pool.Roll(static_cast<int>(shape.size())));
  for (Expr& size : shape) {
    if (pool.Roll(3) == 0) size = 1;
  }
  return shape;
}

// Something to combine `a` with: another value, or a new input whose shape broadcasts.
const Record* PartnerOf(ValuePool& pool, const Record& a) {
  const Record* other = pool.PickWhere([&](const Record& r) { return r.id != a.id && Broadcast(a.shape, r.shape); });
  if (other != nullptr && pool.Roll(4) != 0) return other;
  return pool.Input(Narrower(pool, a.shape), pool.Roll(3) == 0 ? pool.NewType() : a.dtype);
}

}  // namespace

std::optional<Call> ProposeFunction(ValuePool& pool) {
  const Record* x = pool.Roll(6) == 0 ? &pool.Pick() : PickFloat(pool);
  if (x == nullptr) return std::nullopt;
  const char* op = pool.Of(
      {"exp",   "tanh", "erf",   "sin",         "cos",         "atan",     "sigmoid",    "silu",  "gelu", "sqrt",
       "rsqrt", "log",  "log1p", "expm1",       "exp2",        "log2",     "sinh",       "asinh", "tan",  "softplus",
       "mish",  "elu",  "selu",  "log_sigmoid", "hardsigmoid", "softsign", "reciprocal", "erfc",  "acos", "lgamma"});
  return Call{absl::StrCat("aten.", op, ".default"), {Arg("self", Ref(*x))}, {x->shape}, false, false, true};
}

// Exact operators, and those that jump.
std::optional<Call> ProposeStep(ValuePool& pool) {
  const Record& x = pool.Pick();
  const char* op = pool.Of({"neg", "abs", "relu", "square", "floor", "ceil", "trunc", "round", "sign", "logical_not",
                            "isnan", "isinf", "hardtanh", "relu6", "frac", "bitwise_not", "sgn", "signbit"});
  bool smooth = op == std::string("neg") || op == std::string("abs") || op == std::string("relu") ||
                op == std::string("square") || op == std::string("hardtanh") || op == std::string("relu6");
  return Call{absl::StrCat("aten.", op, ".default"), {Arg("self", Ref(x))}, {x.shape}, false, !smooth};
}

std::optional<Call> ProposeArithmetic(ValuePool& pool) {
  const Record& a = pool.Pick();
  const Record* b = PartnerOf(pool, a);
  if (b == nullptr) return std::nullopt;
  auto shape = Broadcast(a.shape, b->shape);
  if (!shape) return std::nullopt;
  std::vector<NamedArgument> args = {Arg("self", Ref(a)), Arg("other", Ref(*b))};
  if (pool.Roll(2)) std::swap(args[0].value, args[1].value);
  const char* op = pool.Of({"add.Tensor", "sub.Tensor", "mul.Tensor", "add.Tensor", "mul.Tensor", "div.Tensor",
                            "maximum.default", "minimum.default", "fmax.default", "fmin.default", "atan2.default",
                            "pow.Tensor_Tensor", "remainder.Tensor", "fmod.Tensor", "floor_divide.default",
                            "copysign.Tensor", "hypot.default", "logaddexp.default", "xlogy.Tensor"});
  std::string name = op;
  if ((name == "add.Tensor" || name == "sub.Tensor") && pool.Roll(3) == 0)
    args.push_back(Key("alpha", Int(1 + pool.Roll(3))));
  bool jumps = name == "remainder.Tensor" || name == "fmod.Tensor" || name == "floor_divide.default" ||
               name == "copysign.Tensor" || name == "atan2.default";
  bool function = jumps || name == "pow.Tensor_Tensor" || name == "hypot.default" || name == "logaddexp.default" ||
                  name == "xlogy.Tensor";
  return Call{absl::StrCat("aten.", op), args, {*shape}, false, jumps, function && name != "copysign.Tensor"};
}

std::optional<Call> ProposeWithNumber(ValuePool& pool) {
  const Record& x = pool.Pick();
  Argument number = pool.Roll(2) ? Int(pool.Roll(7) - 3) : Argument(pool.Of({0.5, -1.5, 2.0, 0.1, 3.0, 0.0}));
  const char* op = pool.Of({"add.Tensor", "mul.Tensor", "sub.Tensor", "div.Tensor", "pow.Tensor_Scalar", "rsub.Scalar",
                            "clamp_min.default", "clamp_max.default", "leaky_relu.default", "masked_fill"});
  std::string name = op;
  if (name == "masked_fill") {
    const Record* mask = pool.Input(Narrower(pool, x.shape), DType::kBool);
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

std::optional<Call> ProposeComparison(ValuePool& pool) {
  const Record& a = pool.Pick();
  const char* op = pool.Of({"eq", "ne", "lt", "le", "gt", "ge"});
  if (pool.Roll(3) == 0) {
    return Call{absl::StrCat("aten.", op, ".Scalar"),
                {Arg("self", Ref(a)), Arg("other", pool.Of({0.5, 0.0, 1.0}))},
                {a.shape},
                false,
                true};
  }
  const Record* b = PartnerOf(pool, a);
  if (b == nullptr) return std::nullopt;
  auto shape = Broadcast(a.shape, b->shape);
  if (!shape) return std::nullopt;
  return Call{
      absl::StrCat("aten.", op, ".Tensor"), {Arg("self", Ref(a)), Arg("other", Ref(*b))}, {*shape}, false, true};
}

std::optional<Call> ProposeBits(ValuePool& pool) {
  const Record* x = pool.PickWhere([](const Record& r) { return !r.floating(); });
  if (x == nullptr) return std::nullopt;
  const Record& a = *x;
  const Record* b = pool.PickWhere([&](const Record& r) { return !r.floating() && Broadcast(a.shape, r.shape); });
  if (b == nullptr) return std::nullopt;
  const char* op =
      pool.Of({"bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "logical_and.default",
               "logical_or.default", "logical_xor.default", "bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor"});
  return Call{absl::StrCat("aten.", op), {Arg("self", Ref(a)), Arg("other", Ref(*b))}, {*Broadcast(a.shape, b->shape)}};
}

std::optional<Call> ProposeThree(ValuePool& pool) {
  const Record& a = pool.Pick();
  const Record* second = PartnerOf(pool, a);
  if (second == nullptr) return std::nullopt;
  const Record& b = *second;
  auto shape = Broadcast(a.shape, b.shape);
  if (!shape) return std::nullopt;
  if (pool.Roll(2) == 0) {
    const Record* c =
        pool.PickWhere([&](const Record& r) { return r.dtype == DType::kBool && Broadcast(*shape, r.shape); });
    if (c == nullptr) c = pool.Input(Narrower(pool, *shape), DType::kBool);
    if (c == nullptr) return std::nullopt;
    return Call{"aten.where.self",
                {Arg("condition", Ref(*c)), Arg("self", Ref(a)), Arg("other", Ref(b))},
                {*Broadcast(*shape, c->shape)}};
  }
  const Record* c = pool.Input(Narrower(pool, *shape), a.dtype);
  if (c == nullptr) return std::nullopt;
  Shape all = *Broadcast(*shape, c->shape);
  switch (pool.Roll(4)) {
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

std::optional<Call> ProposeCast(ValuePool& pool) {
  const Record& x = pool.Pick();
  DType to = pool.NewType();
  bool jumps = !ir::IsFloat(to);
  return Call{"aten._to_copy.default", {Arg("self", Ref(x)), Key("dtype", to)}, {x.shape}, false, jumps};
}

}  // namespace preheat::testing
