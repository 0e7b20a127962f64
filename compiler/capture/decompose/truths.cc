// Functions of bools where results are compared bit for bit (exact.h): there are two arguments, or four pairs of them,
// and each result is the float nearest to what the function is. Only functions whose eager form gives that float too.

#include "compiler/capture/decompose/truths.h"

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/views.h"

namespace preheat::decompose {
namespace {

// What the function is of false and of true.
LowerFn OfOne(double at_false, double at_true) {
  return [=](OpContext& c) {
    DType dtype = c.ResultType().dtype;
    const std::string name = c.Arg("self") != nullptr ? "self" : "x";
    c.Set(c.b.Where(c.Operand(name, DType::kBool), c.Fill(at_true, dtype), c.Fill(at_false, dtype)));
  };
}

// Of (false, false), (false, true), (true, false), (true, true).
LowerFn OfTwo(std::array<double, 4> results, const char* first = "self", const char* second = "other") {
  return [=](OpContext& c) {
    DType dtype = c.ResultType().dtype;
    Value a = c.Operand(first, DType::kBool), b = c.Operand(second, DType::kBool);
    auto by_second = [&](int at) { return c.b.Where(b, c.Fill(results[at + 1], dtype), c.Fill(results[at], dtype)); };
    c.Set(c.b.Where(a, by_second(2), by_second(0)));
  };
}

// A family of polynomials: the one of degree 0 is 1, the one of degree 1 is given by its values.
LowerFn Polynomials(double first_at_false, double first_at_true) {
  return OfTwo({1, first_at_false, 1, first_at_true}, "x", "n");
}

void PolyGammaOfTruth(OpContext& c) {
  static constexpr std::array<std::array<double, 2>, 3> kValues = {
      {{INFINITY, 1.64493406684822644}, {-INFINITY, -2.40411380631918857}, {INFINITY, 6.49393940226682915}}};
  int64_t n = c.Int("n");
  if (n < 1 || n > static_cast<int64_t>(kValues.size()))
    return c.Refuse("an order whose eager form is not the nearest");
  OfOne(kValues[n - 1][0], kValues[n - 1][1])(c);
}

}  // namespace

namespace {

// Whether the value holds bools, or is a copy of such a one in another dtype.
bool HoldsTruths(const capture::AtenProgram& program, int id) {
  if (program.values[id].is_size) return false;
  if (program.values[id].type.tensor.dtype == DType::kBool) return true;
  for (const capture::AtenNode& node : program.nodes) {
    if (node.op != "aten._to_copy.default" && node.op != "aten.to.dtype") continue;
    if (node.results != std::vector<int>{id}) continue;
    const int copied = capture::FirstOperand(node);
    return copied >= 0 && program.values[copied].type.tensor.dtype == DType::kBool;
  }
  return false;
}

}  // namespace

bool TakesTruths(const capture::AtenProgram& program, const capture::AtenNode& node) {
  for (const capture::NamedArgument& arg : node.args) {
    const auto* ref = std::get_if<capture::ValueRef>(&arg.value);
    if (ref == nullptr) {
      if (arg.name == "n") continue;  // polygamma's order
      return false;
    }
    if (!HoldsTruths(program, ref->id)) return false;
  }
  return !node.args.empty();
}

OpTable TruthOps() {
  return {
      {"aten.sinh.default", OfOne(0, 1.17520119364380146)},
      {"aten.tan.default", OfOne(0, 1.55740772465490223)},
      {"aten.log.default", OfOne(-INFINITY, 0)},
      {"aten.sqrt.default", OfOne(0, 1)},
      {"aten.lgamma.default", OfOne(INFINITY, 0)},
      {"aten.erfinv.default", OfOne(0, INFINITY)},
      {"aten.special_i1.default", OfOne(0, 0.565159103992485027)},
      {"aten.special_i1e.default", OfOne(0, 0.207910415349708449)},
      {"aten.special_modified_bessel_i1.default", OfOne(0, 0.565159103992485027)},
      {"aten.special_ndtri.default", OfOne(-INFINITY, INFINITY)},
      {"aten.special_log_ndtr.default", OfOne(-0.693147180559945309, -0.172753779023449852)},
      {"aten.special_erfcx.default", OfOne(1, 0.427583576155807004)},
      {"aten.special_bessel_y1.default", OfOne(-INFINITY, -0.781212821300288717)},
      {"aten.special_spherical_bessel_j0.default", OfOne(1, 0.841470984807896507)},
      {"aten.special_entr.default", OfOne(0, -0.0)},
      {"aten.polygamma.default", PolyGammaOfTruth},
      {"aten.pow.Tensor_Tensor", OfTwo({1, 0, 1, 1}, "self", "exponent")},
      {"aten.xlogy.Tensor", OfTwo({0, 0, -INFINITY, 0})},
      {"aten.special_xlog1py.default", OfTwo({0, 0, 0, 0.693147180559945309})},
      {"aten.special_zeta.default", OfTwo({NAN, NAN, INFINITY, INFINITY})},
      {"aten.special_chebyshev_polynomial_t.default", Polynomials(0, 1)},
      {"aten.special_chebyshev_polynomial_u.default", Polynomials(0, 2)},
      {"aten.special_chebyshev_polynomial_v.default", Polynomials(-1, 1)},
      {"aten.special_chebyshev_polynomial_w.default", Polynomials(1, 3)},
      {"aten.special_shifted_chebyshev_polynomial_t.default", Polynomials(-1, 1)},
      {"aten.special_shifted_chebyshev_polynomial_u.default", Polynomials(-2, 2)},
      {"aten.special_shifted_chebyshev_polynomial_v.default", Polynomials(-3, 1)},
      {"aten.special_shifted_chebyshev_polynomial_w.default", Polynomials(-1, 3)},
      {"aten.special_hermite_polynomial_h.default", Polynomials(0, 2)},
      {"aten.special_hermite_polynomial_he.default", Polynomials(0, 1)},
      {"aten.special_laguerre_polynomial_l.default", Polynomials(1, 0)},
      {"aten.special_legendre_polynomial_p.default", Polynomials(0, 1)},
  };
}

}  // namespace preheat::decompose
