// Chebyshev's polynomials of the first to fourth kind, and the shifted ones, which are those of 2x - 1. The degree is a
// tensor: polynomials of twice a degree follow from those of the degree, so one step a bit of it is enough.

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

constexpr int kDegreeBits = 31;

struct Pair {
  Value before, at;  // of the second kind, of degrees n - 1 and n
};

// U of 2n - 1, 2n and 2n + 1 from U of n - 1 and n.
Pair Doubled(Builder& b, Value x, const Pair& u, Value odd) {
  Value low = b.Mul(b.Mul(u.before, b.Sub(u.at, b.Mul(x, u.before))), 2.0);
  Value middle = b.Mul(b.Sub(u.at, u.before), b.Add(u.at, u.before));
  Value high = b.Mul(b.Mul(u.at, b.Sub(b.Mul(x, u.at), u.before)), 2.0);
  return {b.Where(odd, middle, low), b.Where(odd, high, middle)};
}

Pair SecondKind(Builder& b, Value x, Value n) {
  Pair u = {Like(b, x, 0), Like(b, x, 1)};
  Value started = b.Fill(Scalar(int64_t{0}), DType::kBool);
  for (int bit = kDegreeBits - 1; bit >= 0; --bit) {
    Value rest = b.Binary(Op::kShr, n, Scalar(int64_t{bit}));
    Value odd = b.Binary(Op::kNe, b.Binary(Op::kAnd, rest, Scalar(int64_t{1})), Scalar(int64_t{0}));
    Pair next = Doubled(b, x, u, odd);
    // Leading zeros leave degree 0 as it is, in whatever arithmetic.
    started = b.Binary(Op::kOr, started, odd);
    u = {b.Where(started, next.before, u.before), b.Where(started, next.at, u.at)};
  }
  return u;
}

using Kind = Value (*)(Builder&, Value, const Pair&);

Value First(Builder& b, Value x, const Pair& u) { return b.Sub(u.at, b.Mul(x, u.before)); }
Value Second(Builder&, Value, const Pair& u) { return u.at; }
Value Third(Builder& b, Value, const Pair& u) { return b.Sub(u.at, u.before); }
Value Fourth(Builder& b, Value, const Pair& u) { return b.Add(u.at, u.before); }

LowerFn Chebyshev(Kind kind, bool shifted) {
  return [kind, shifted](OpContext& c) {
    Builder& b = c.b;
    DType dtype = c.ResultType().dtype;
    Value x = c.Operand("x", dtype), n = c.Operand("n", DType::kI64);
    if (!x || !n) return;
    if (c.exact()) return c.Refuse("of integers: eager's roundings, degree by degree, are kept");
    x = b.BroadcastTo(x, c.ResultShape());
    n = b.BroadcastTo(n, c.ResultShape());
    if (shifted) x = b.Add(b.Mul(x, 2.0), -1.0);
    Value result = kind(b, x, SecondKind(b, x, b.Binary(Op::kMax, n, Scalar(int64_t{0}))));
    c.Set(b.Where(b.Binary(Op::kLt, n, Scalar(int64_t{0})), Like(b, x, 0), result));
  };
}

}  // namespace

OpTable OrthogonalOps() {
  return {
      {"aten.special_chebyshev_polynomial_t.default", Chebyshev(First, false)},
      {"aten.special_chebyshev_polynomial_u.default", Chebyshev(Second, false)},
      {"aten.special_chebyshev_polynomial_v.default", Chebyshev(Third, false)},
      {"aten.special_chebyshev_polynomial_w.default", Chebyshev(Fourth, false)},
      {"aten.special_shifted_chebyshev_polynomial_t.default", Chebyshev(First, true)},
      {"aten.special_shifted_chebyshev_polynomial_u.default", Chebyshev(Second, true)},
      {"aten.special_shifted_chebyshev_polynomial_v.default", Chebyshev(Third, true)},
      {"aten.special_shifted_chebyshev_polynomial_w.default", Chebyshev(Fourth, true)},
  };
}

}  // namespace preheat::decompose
