// Special functions, as polynomials fitted to f32: the coefficients are printed by fit_special.py beside this file.
// Only f32 and what is computed in it is lowered; in f64 torch runs them.

#include <array>
#include <cmath>
#include <utility>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"
#include "compiler/capture/decompose/polynomial.h"

namespace preheat::decompose {
namespace {

// --- Gamma ---

// sin(pi x) by the distance to the nearest integer, exact at integers.
Value SinPi(Builder& b, Value x) {
  Value nearest = b.Unary(Op::kRound, x), distance = b.Sub(x, nearest);
  Value half = b.Mul(nearest, 0.5);
  Value odd = b.Binary(Op::kNe, half, b.Unary(Op::kFloor, half));
  Value sine = b.Unary(Op::kSin, b.Mul(distance, M_PI));
  return b.Where(odd, Neg(b, sine), sine);
}

// log(gamma(x)) for x > 0: on [1, 3] a polynomial times (x - 1)(x - 2), moved there from below; Stirling's above.
Value PositiveLgamma(Builder& b, Value x) {
  static constexpr std::array kRatio = {-3.63155219e-05, 7.78713189e-05, -5.90323996e-05, 0.000131388344,
                                        -0.000419005835, 0.000943640607, -0.00210490778,  0.00499179268,
                                        -0.012384473,    0.0329655972,   -0.100317298,    0.422784327};
  Value below = Less(b, x, 1);
  Value moved = Clamped(b, b.Where(below, b.Add(x, 1.0), x), 1, 3);
  Value product = b.Mul(b.Add(moved, -1.0), b.Add(moved, -2.0));
  Value near = b.Mul(product, Polynomial(b, b.Add(moved, -2.0), kRatio));
  near = b.Where(below, b.Sub(near, Log(b, x)), near);
  static constexpr std::array kStirling = {-1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12};
  Value inverse = DivideNumber(b, 1, x);
  Value series = b.Mul(inverse, Polynomial(b, b.Mul(inverse, inverse), kStirling));
  Value far = b.Add(b.Mul(b.Add(x, -0.5), b.Add(Log(b, x), -1.0)), 0.91893853320467274 - 0.5);
  far = b.Add(far, series);
  Value result = b.Where(Less(b, x, 3), near, far);
  return Pick(b, Equal(b, x, INFINITY), INFINITY, result);
}

// Below 0: log(pi / |x sin(pi x)|) - lgamma(-x), infinite at integers.
Value Lgamma(Builder& b, Value x) {
  Value size = Abs(b, x), positive = PositiveLgamma(b, size);
  Value sine = Abs(b, SinPi(b, x));
  Value mirrored = b.Sub(Log(b, DivideNumber(b, M_PI, b.Mul(size, sine))), positive);
  mirrored = b.Where(Less(b, size, 1e-17), positive, mirrored);  // both are -log|x|, and |x sin(pi x)| underflows
  Value whole = b.Binary(Op::kEq, x, b.Unary(Op::kFloor, x));
  Value pole = b.Binary(Op::kAnd, whole, b.Binary(Op::kLe, x, Scalar(0.0)));
  Value result = b.Where(Less(b, x, 0), mirrored, positive);
  result = Pick(b, pole, INFINITY, result);
  return b.Where(b.Unary(Op::kIsNan, x), x, result);
}

// Of an integer, in f64: Stirling's series 8 above, less the logarithm of the factors between. Exactly 0 at 1 and 2.
Value LgammaOfInteger(Builder& b, Value x) {
  Value factors = x;
  for (int k = 1; k < 8; ++k) factors = b.Mul(factors, b.Add(x, k));
  Value y = b.Add(x, 8.0), inverse = DivideNumber(b, 1, y);
  static constexpr std::array kStirling = {-691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12};
  Value series = b.Mul(inverse, Polynomial(b, b.Mul(inverse, inverse), kStirling));
  Value far = b.Sub(b.Mul(b.Add(y, -0.5), Log(b, y)), y);
  Value result = b.Sub(b.Add(b.Add(far, 0.91893853320467274178), series), Log(b, factors));
  result = Pick(b, b.Binary(Op::kOr, Equal(b, x, 1), Equal(b, x, 2)), 0, result);
  return Pick(b, Less(b, x, 1), INFINITY, result);
}

void LgammaOp(OpContext& c) {
  Value x = c.Tensor("self");
  if (!x || !c.exact() || ir::IsFloat(x.dtype())) return Special(Lgamma)(c);
  c.Set(LgammaOfInteger(c.b, c.b.Cast(x, DType::kF64)));
}

// pi / tan(pi x), by the distance to the nearest integer.
Value CotPi(Builder& b, Value x) {
  Value distance = b.Mul(b.Sub(x, b.Unary(Op::kRound, x)), M_PI);
  return DivideNumber(b, M_PI, b.Unary(Op::kTan, distance));
}

// Below 6 the sum of 1 / (x + k) is taken off; the asymptotic series above.
Value PositiveDigamma(Builder& b, Value x) {
  Value low = Less(b, x, 6), sum = Number(b, x, 0);
  for (int k = 0; k < 6; ++k) sum = b.Add(sum, DivideNumber(b, 1, b.Add(x, k)));
  Value y = b.Where(low, b.Add(x, 6.0), x), inverse = DivideNumber(b, 1, y);
  static constexpr std::array kSeries = {1.0 / 240, -1.0 / 252, 1.0 / 120, -1.0 / 12, 0.0};
  Value result = b.Add(b.Sub(Log(b, y), b.Mul(inverse, 0.5)), Polynomial(b, b.Mul(inverse, inverse), kSeries));
  return b.Where(low, b.Sub(result, sum), result);
}

// Eager's poles: NaN at negative integers, an infinity of the other sign at zeros.
Value Digamma(Builder& b, Value x) {
  Value negative = Less(b, x, 0);
  Value point = b.Where(negative, b.Sub(Number(b, x, 1), x), x);
  Value result = PositiveDigamma(b, point);
  result = b.Where(negative, b.Sub(result, CotPi(b, x)), result);
  Value whole = b.Binary(Op::kEq, x, b.Unary(Op::kFloor, x));
  result = Pick(b, b.Binary(Op::kAnd, whole, negative), NAN, result);
  Value at_zero = b.Binary(Op::kCopySign, Number(b, x, INFINITY), Neg(b, x));
  return b.Where(Equal(b, x, 0), at_zero, result);
}

// zeta(s, x) = sum of (x + k)^-s, k >= 0, for x > 0 and an integer s > 1: 8 terms, then Euler and Maclaurin's.
Value PositiveZeta(Builder& b, Value x, int s) {
  auto power = [&](Value v) {
    Value inverse = DivideNumber(b, 1, v), product = inverse;
    for (int i = 1; i < s; ++i) product = b.Mul(product, inverse);
    return product;
  };
  const int terms = 8;
  Value sum = power(x);
  for (int k = 1; k < terms; ++k) sum = b.Add(sum, power(b.Add(x, k)));
  Value y = b.Add(x, terms), tail = power(y), inverse = DivideNumber(b, 1, y), square = b.Mul(inverse, inverse);
  const double n = s;
  Value corrections = b.Add(b.Mul(square, -n * (n + 1) * (n + 2) / 720), n / 12);
  corrections = b.Add(b.Mul(b.Mul(square, square), n * (n + 1) * (n + 2) * (n + 3) * (n + 4) / 30240), corrections);
  Value rest = b.Add(b.Add(b.Mul(y, 1 / (n - 1)), b.Mul(inverse, corrections)), 0.5);
  return b.Add(sum, b.Mul(tail, rest));
}

// The n-th derivative of pi cot(pi x) as a polynomial in t = cot(pi x), lowest power first, without pi^(n + 1):
// P_0 = t, and P_(n+1) = -(1 + t^2) P_n'.
std::vector<double> CotDerivative(int n) {
  std::vector<double> p = {0, 1};
  for (int i = 0; i < n; ++i) {
    std::vector<double> next(p.size() + 1, 0);
    for (size_t k = 1; k < p.size(); ++k) {
      next[k - 1] -= static_cast<double>(k) * p[k];
      next[k + 1] -= static_cast<double>(k) * p[k];
    }
    p = std::move(next);
  }
  return p;
}

// psi_n(x) = (-1)^(n+1) n! zeta(n + 1, x); below 0 by reflection: psi_n(x) = (-1)^n (psi_n(1 - x)) - D^n pi cot(pi x).
// At integers below 1 eager has the infinity of zeta.
Value PolyGamma(Builder& b, Value x, int n) {
  double factor = n % 2 == 1 ? 1 : -1;
  for (int i = 2; i <= n; ++i) factor *= i;
  Value negative = Less(b, x, 0);
  Value point = b.Where(negative, b.Sub(Number(b, x, 1), x), x);
  Value positive = b.Mul(PositiveZeta(b, point, n + 1), factor);
  Value cot = b.Mul(CotPi(b, x), 1 / M_PI);
  std::vector<double> p = CotDerivative(n);
  Value derivative = Number(b, x, p.back());
  for (size_t k = p.size() - 1; k-- > 0;) derivative = b.Add(b.Mul(derivative, cot), p[k]);
  derivative = b.Mul(derivative, std::pow(M_PI, n + 1));
  Value mirrored = b.Sub(n % 2 == 0 ? positive : Neg(b, positive), derivative);
  Value result = b.Where(negative, mirrored, positive);
  Value whole = b.Binary(Op::kEq, x, b.Unary(Op::kFloor, x));
  Value pole = b.Binary(Op::kAnd, whole, b.Binary(Op::kLe, x, Scalar(0.0)));
  return Pick(b, pole, std::copysign(INFINITY, factor), result);
}

void PolyGammaOp(OpContext& c) {
  DType dtype = ComputeType(c.ResultType().dtype);
  int64_t n = c.Int("n");
  if (dtype != DType::kF32) return c.Refuse("a polynomial for f64");
  if (n < 0 || n > 8) return c.Refuse("a high order");
  Value x = c.Operand("self", dtype);
  c.Set(n == 0 ? Digamma(c.b, x) : PolyGamma(c.b, x, static_cast<int>(n)));
}

// sum over j < p of lgamma(x - j/2), and p (p - 1) / 4 log(pi)
void MultivariateLgamma(OpContext& c) {
  DType dtype = ComputeType(c.ResultType().dtype);
  int64_t p = c.Int("p");
  if (dtype != DType::kF32 || p < 1 || p > 16) return c.Refuse("many terms, or f64");
  Value x = c.Operand("self", dtype), sum = Lgamma(c.b, x);
  if (c.exact() && p == 1) return LgammaOp(c);
  for (int64_t j = 1; j < p; ++j) sum = c.b.Add(sum, Lgamma(c.b, c.b.Add(x, -0.5 * static_cast<double>(j))));
  c.Set(c.b.Add(sum, static_cast<double>(p * (p - 1)) * std::log(M_PI) / 4));
}

// --- The error function's relatives ---

// erfinv(x) / x from w = -log(1 - x^2).
Value ErfInvRatio(Builder& b, Value w) {
  static constexpr std::array kSmall = {-3.40725936e-05, 3.56078601e-05, 0.0002857247,  -0.000845699528, -0.00048558786,
                                        0.0085292729,    -0.0195738499,  -0.0261087055, 0.616600698,     1.50140936};
  static constexpr std::array kLarge = {4.17320275e-05, -6.68640385e-05, -0.000130063894, 0.000624778009,
                                        -0.00137470568, 0.0023415075,    -0.00370991845,  0.00557031309,
                                        0.88515848,     2.95132856};
  static constexpr std::array kTail = {-0.000134206121, 0.000289783633, -0.000310543797, 0.000409239731,
                                       -2.48077105e-05, -0.0038786151,  2.77434516,      6.61683817};
  const double edge = std::sqrt(5.0);
  Value root = Sqrt(b, w);
  Value small = Polynomial(b, b.Add(b.Mul(Clamped(b, w, 0, 5), 0.4), -1.0), kSmall);
  Value large =
      Polynomial(b, b.Add(b.Mul(Clamped(b, root, edge, 4), 2 / (4 - edge)), -(4 + edge) / (4 - edge)), kLarge);
  Value tail = Polynomial(b, b.Add(b.Mul(Clamped(b, root, 4, 9.5), 2 / 5.5), -13.5 / 5.5), kTail);
  return b.Where(Less(b, w, 5), small, b.Where(Less(b, root, 4), large, tail));
}

Value ErfInv(Builder& b, Value x) {
  Value one = Number(b, x, 1), size = Abs(b, x);
  Value w = Neg(b, Log(b, b.Mul(b.Sub(one, x), b.Add(x, 1.0))));
  Value inside = b.Mul(x, ErfInvRatio(b, w));
  Value edge = b.Binary(Op::kCopySign, Number(b, x, INFINITY), x);
  return b.Where(Less(b, size, 1), inside, b.Where(Equal(b, size, 1), edge, Number(b, x, NAN)));
}

// The quantile of the normal distribution: sqrt(2) erfinv(2p - 1), w taken from p itself, which may be tiny.
Value Ndtri(Builder& b, Value p) {
  Value rest = b.Sub(Number(b, p, 1), p);
  Value w = Neg(b, Log(b, b.Mul(b.Mul(p, rest), 4.0)));
  Value inside = b.Mul(b.Mul(b.Sub(p, rest), ErfInvRatio(b, w)), M_SQRT2);
  Value result = Pick(b, Equal(b, p, 0), -INFINITY, Pick(b, Equal(b, p, 1), INFINITY, inside));
  Value outside = b.Binary(Op::kOr, Less(b, p, 0), b.Binary(Op::kGt, p, Scalar(1.0)));
  return Pick(b, outside, NAN, result);
}

// exp(x^2) erfc(x): below 0 by 2 exp(x^2) - erfcx(-x).
Value Erfcx(Builder& b, Value x) {
  static constexpr std::array kRatio = {-2.84869081e-07, 5.63119987e-07,  4.60399817e-06, -2.93131293e-08,
                                        -4.4112268e-05,  -0.000114463437, 7.01984162e-05, 0.00152833063,
                                        0.00659252356,   0.0190952999,    0.0435027331,   0.0827129067,
                                        0.135213458,     0.193302175,     0.244137182,    0.273998915};
  Value y = DivideNumber(b, 4, b.Add(Abs(b, x), 4.0));
  Value positive = b.Mul(y, Polynomial(b, b.Add(b.Mul(y, 2.0), -1.0), kRatio));
  Value mirrored = b.Sub(b.Mul(Exp(b, b.Mul(x, x)), 2.0), positive);
  return b.Where(Less(b, x, 0), mirrored, positive);
}

// The logarithm of the normal distribution.
Value LogNdtr(Builder& b, Value x) {
  Value t = b.Mul(x, M_SQRT1_2);
  Value low = b.Sub(Log(b, b.Mul(Erfcx(b, Neg(b, t)), 0.5)), b.Mul(t, t));
  Value high = b.Unary(Op::kLog1p, b.Mul(b.Unary(Op::kErfc, t), -0.5));
  return b.Where(Less(b, x, -1), low, high);
}
Value Ndtr(Builder& b, Value x) { return b.Mul(b.Unary(Op::kErfc, b.Mul(x, -M_SQRT1_2)), 0.5); }

void AddRows(OpTable& table, std::initializer_list<const char*> names, const LowerFn& fn) {
  for (const char* name : names) table.emplace_back(name, fn);
}

}  // namespace

OpTable SpecialOps() {
  OpTable table;
  AddRows(table, {"aten.lgamma.default", "aten.special_gammaln.default"}, LgammaOp);
  AddRows(table, {"aten.digamma.default", "aten.special_digamma.default", "aten.special_psi.default"},
          Special(Digamma));
  AddRows(table, {"aten.polygamma.default", "aten.special_polygamma.default"}, PolyGammaOp);
  AddRows(table, {"aten.mvlgamma.default", "aten.special_multigammaln.default"}, MultivariateLgamma);
  AddRows(table, {"aten.erfinv.default", "aten.special_erfinv.default"}, Special(ErfInv));
  table.emplace_back("aten.special_ndtri.default", Special(Ndtri));
  table.emplace_back("aten.special_ndtr.default", Special(Ndtr));
  table.emplace_back("aten.special_log_ndtr.default", Special(LogNdtr));
  table.emplace_back("aten.special_erfcx.default", Special(Erfcx));
  return table;
}

}  // namespace preheat::decompose
