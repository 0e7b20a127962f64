#include "compiler/codegen/cpu/math_text.h"

namespace preheat {
namespace {

constexpr char kText[] = R"(
// As in math_f32.cc: minimax polynomials by Remez exchange. "Top" of a double is its upper 26 bits, so that products of tops
// are exact with and without FMA, contracted or not; sums of unequal terms keep what the larger one loses.

FN double phx_near_f64(double x) { return (x + 6755399441055744.0) - 6755399441055744.0; }
// 2^k for a whole k in [-1023, 1023]; -1023 gives 0.
FN double phx_pow2_f64(double k) {
  return __builtin_bit_cast(double, __builtin_bit_cast(unsigned long long, k + 6755399441056767.0) << 52);
}

FN double phx_top_f64(double x) {
  return __builtin_bit_cast(double, __builtin_bit_cast(unsigned long long, x) & 0xfffffffff8000000ull);
}

// exp(r) - 1 on |r| <= ln2 / 2 as r + r^2 P(r): relative error 2^-61.
FN double phx_expm1_tail_f64(double r) {
  double p = 2.092317325505234e-09;
  p = p * r + 2.510914916080403e-08;
  p = p * r + 2.7557251739294573e-07;
  p = p * r + 2.7557243875278936e-06;
  p = p * r + 2.4801587343634474e-05;
  p = p * r + 0.00019841269886490805;
  p = p * r + 0.0013888888888878882;
  p = p * r + 0.00833333333332146;
  p = p * r + 0.04166666666666667;
  p = p * r + 0.16666666666666677;
  p = p * r + 0.5;
  return p * (r * r);
}

FN double phx_expm1_core_f64(double r) { return phx_expm1_tail_f64(r) + r; }

// The whole number of ln2 in x, and what it leaves (Cody and Waite: ln2 in 32 bits and the rest).
FN double phx_ln2s_f64(double x) { return phx_near_f64(x * 1.4426950408889634); }
FN double phx_ln2_rest_f64(double x, double k) { return (x - k * 0.6931471803691238) - k * 1.9082149292705877e-10; }
// Two steps of scaling: results below the least normal number are rounded once.
FN double phx_scale_f64(double x, double k) {
  double h = phx_near_f64(k * 0.5);
  return x * phx_pow2_f64(h) * phx_pow2_f64(k - h);
}

FN double ph_exp_f64(double x) {
  x = x < -746.0 ? -746.0 : x;
  x = x > 710.0 ? 710.0 : x;
  double k = phx_ln2s_f64(x);
  return phx_scale_f64(phx_expm1_core_f64(phx_ln2_rest_f64(x, k)) + 1.0, k);
}

// 2^r on |r| <= 1/2 as 1 + r (ln2 + r Q(r)): error 2^-60.
FN double phx_exp2_core_f64(double r) {
  double p = 2.455797013068764e-11;
  p = p * r + 4.456556826378664e-10;
  p = p * r + 7.0556904779862475e-09;
  p = p * r + 1.0178052712103039e-07;
  p = p * r + 1.3215484867641684e-06;
  p = p * r + 1.5252733850317649e-05;
  p = p * r + 0.00015403530395425612;
  p = p * r + 0.0013333558146399907;
  p = p * r + 0.009618129107627613;
  p = p * r + 0.05550410866482164;
  p = p * r + 0.24022650695910072;
  p = p * r + 0.6931471805599453;
  return p * r + 1.0;
}

FN double ph_exp2_f64(double x) {
  x = x < -1080.0 ? -1080.0 : x;
  x = x > 1025.0 ? 1025.0 : x;
  double k = phx_near_f64(x);
  return phx_scale_f64(phx_exp2_core_f64(x - k), k);
}

// 2^k (exp(r) - 1) + (2^k - 1), where nothing cancels near 0.
FN double ph_expm1_f64(double x) {
  double c = x < -40.0 ? -40.0 : x;
  c = c > 710.0 ? 710.0 : c;
  double k = phx_ln2s_f64(c);
  double p = phx_expm1_core_f64(phx_ln2_rest_f64(c, k));
  double s = phx_pow2_f64(k > 1023.0 ? 1023.0 : k);
  double r = k > 1023.0 ? (s * p + s) * 2.0 : s * p + (s - 1.0);
  return __builtin_copysign(r, x);
}

// |x| < 0.55: x + x^3 P(x^2), relative error 2^-65. Above: 1 - 2 / (exp(2 |x|) + 1). From 22 on it is 1.
FN double ph_tanh_f64(double x) {
  double a = __builtin_fabs(x);
  double z = x * x;
  double q = 7.2755171113003375e-06;
  q = q * z - 3.2648407143544366e-05;
  q = q * z + 9.371362332955349e-05;
  q = q * z - 0.00023809825393859046;
  q = q * z + 0.0005897996549671242;
  q = q * z - 0.001455799534771892;
  q = q * z + 0.003592124373242138;
  q = q * z - 0.008863235272022292;
  q = q * z + 0.021869488524569883;
  q = q * z - 0.05396825396794879;
  q = q * z + 0.1333333333333293;
  q = q * z - 0.3333333333333333;
  double near = q * z * a + a;
  double c = a > 22.0 ? 44.0 : a + a;
  double k = phx_ln2s_f64(c);
  double s = phx_pow2_f64(k);
  double far = 1.0 - 2.0 / (s * phx_expm1_core_f64(phx_ln2_rest_f64(c, k)) + (s + 1.0));
  return __builtin_copysign(a < 0.55 ? near : far, x);
}

// exp(a) / 2 and 1 / (2 exp(a)); the half keeps the first finite where sinh is.
FN double phx_half_exp_f64(double a) {
  a = a > 710.5 ? 710.5 : a;
  double k = phx_ln2s_f64(a);
  double p = phx_expm1_core_f64(phx_ln2_rest_f64(a, k));
  double s = phx_pow2_f64(k - 2.0);
  return (s * p + s) * 2.0;
}

// Below 1: x + x^3 P(x^2), relative error 2^-61.
FN double ph_sinh_f64(double x) {
  double a = __builtin_fabs(x);
  double z = x * x;
  double q = 7.777314222184968e-13;
  q = q * z + 1.6056638432187565e-10;
  q = q * z + 2.5052131224466762e-08;
  q = q * z + 2.7557319105630347e-06;
  q = q * z + 0.00019841269841595883;
  q = q * z + 0.00833333333333291;
  q = q * z + 0.16666666666666669;
  double e = phx_half_exp_f64(a);
  double r = a < 1.0 ? q * z * a + a : e - 0.25 / e;
  return __builtin_copysign(r, x);
}

FN double ph_cosh_f64(double x) {
  double e = phx_half_exp_f64(__builtin_fabs(x));
  return e + 0.25 / e;
}

// x = 2^e m with m in [sqrt(1/2), sqrt(2)). The biased exponent becomes a double by being the low bits of 2^52.
FN unsigned long long phx_exponent_bits_f64(double normal) {
  return (__builtin_bit_cast(unsigned long long, normal) + 0x00095f619980c433ull) >> 52;
}

FN double phx_exponent_f64(double normal) {
  return __builtin_bit_cast(double, phx_exponent_bits_f64(normal) | 0x4330000000000000ull) - 4503599627371519.0;
}

FN double phx_mantissa_f64(double normal) {
  unsigned long long bits = __builtin_bit_cast(unsigned long long, normal);
  return __builtin_bit_cast(double, bits - (phx_exponent_bits_f64(normal) << 52) + 0x3ff0000000000000ull);
}

// log(1 + f) = f - (f^2/2 - s (f^2/2 + R)), s = f / (2 + f), R = (log((1+s)/(1-s)) - 2s) / s: relative error 2^-59.
// log(2^e (1 + f)) + c for small c.
FN double phx_log_core_f64(double e, double f, double c) {
  double s = f / (2.0 + f);
  double z = s * s;
  double p = 0.14795587159212342;
  p = p * z + 0.1531409086553635;
  p = p * z + 0.18183562570044587;
  p = p * z + 0.2222219861101313;
  p = p * z + 0.2857142874197108;
  p = p * z + 0.39999999999416835;
  p = p * z + 0.6666666666666734;
  p = p * z;
  double h = 0.5 * f * f;
  return e * 0.6931471803691238 - ((h - (s * (h + p) + (e * 1.9082149292705877e-10 + c))) - f);
}

// A logarithm r of x with the values at and beyond the ends of its domain.
FN double phx_log_edges_f64(double r, double x) {
  r = x == __builtin_inf() ? x : r;
  return x > 0.0 ? r : x == 0.0 ? -__builtin_inf() : __builtin_nan("");
}

// x, or a tiny x times 2^54: then its exponent is 54 too large.
FN double phx_normal_f64(double x) { return x < 2.2250738585072014e-308 ? x * 18014398509481984.0 : x; }
FN double phx_normal_exponent_f64(double x) {
  return phx_exponent_f64(phx_normal_f64(x)) - (x < 2.2250738585072014e-308 ? 54.0 : 0.0);
}

FN double ph_log_f64(double x) {
  double f = phx_mantissa_f64(phx_normal_f64(x)) - 1.0;
  return phx_log_edges_f64(phx_log_core_f64(phx_normal_exponent_f64(x), f, 0.0), x);
}

FN double ph_log2_f64(double x) {
  double f = phx_mantissa_f64(phx_normal_f64(x)) - 1.0;
  double l = phx_log_core_f64(0.0, f, 0.0);
  return phx_log_edges_f64(phx_normal_exponent_f64(x) + (l * 1.4426950408889634 + l * 2.0355273740931033e-17), x);
}

FN double ph_log10_f64(double x) {
  double f = phx_mantissa_f64(phx_normal_f64(x)) - 1.0;
  double l = phx_log_core_f64(0.0, f, 0.0);
  double e = phx_normal_exponent_f64(x);
  double low = e * 1.1451100898021838e-10 + (l * 0.4342944819032518 + l * 1.098319650216765e-17);
  return phx_log_edges_f64(e * 0.3010299955494702 + low, x);
}

// What 1 + x loses is added again, divided by 1 + x.
// log(1 + x + low), low small against x.
FN double phx_log1p_core_f64(double x, double low) {
  double u = 1.0 + x;
  double lost = x < 1.0 ? x - (u - 1.0) : 1.0 - (u - x);
  double f = phx_mantissa_f64(u) - 1.0;
  double r = phx_log_core_f64(phx_exponent_f64(u), f, (lost + low) / u);
  r = phx_log_edges_f64(r, u);
  return x == 0.0 ? x : r;
}

FN double ph_log1p_f64(double x) { return phx_log1p_core_f64(x, 0.0); }
// log1p(a + a^2 / (1 + sqrt(1 + a^2))); from 2^60 on log(a) + ln2.
FN double ph_asinh_f64(double x) {
  double a = __builtin_fabs(x);
  bool big = a > 0x1p60;
  double z = a * a;
  double r = phx_log1p_core_f64(big ? a : a + z / (1.0 + __builtin_sqrt(1.0 + z)), 0.0);
  return __builtin_copysign(big ? r + 0.6931471805599453 : r, x);
}

// log1p(t + sqrt(2t + t^2)) with t = x - 1; from 2^60 on log(x) + ln2.
FN double ph_acosh_f64(double x) {
  bool big = x > 0x1p60;
  double t = x - 1.0;
  double q = __builtin_sqrt(t + t + t * t);
  double y = big ? x : t + q;
  double r = phx_log1p_core_f64(y, big ? 0.0 : t - (y - q));
  r = big ? r + 0.6931471805599453 : r;
  return x < 1.0 ? __builtin_nan("") : r;
}

// log1p(2a / (1 - a)) / 2; below 1/2 in a form whose quotient is a small part.
FN double ph_atanh_f64(double x) {
  double a = __builtin_fabs(x);
  double d = a + a;
  bool small = a < 0.5;
  double q = (small ? d * a : d) / (1.0 - a);
  double r = 0.5 * phx_log1p_core_f64(small ? d + q : q, 0.0);
  r = a < 1e-300 ? a : r;
  return __builtin_copysign(r, x);
}

// Payne and Hanek: x / (2 pi) without its whole turns, from those eight parts of 1 / (2 pi), 25 bits each, that matter at
// x's exponent: parts whose product with x's last bit is whole turns are left out, and what follows the eighth is below
// 2^-118. Products of the halves of x (26 and 27 bits) with a part are exact; the sum is kept in two doubles. x is scaled by
// 2^-200 and the parts by 2^200, so that the last ones are no subnormals; below 0.78 the angle is x, and turn comes out 0.
static const double phx_turn_parts_f64[46] = {
    2.557521226686732e+59, 1.0317567861580613e+52, 1.179932616460263e+44, 2.440145958888277e+36, 1.031255280956328e+29,
    1.0117350636636655e+21, 112489765273600.0, 6557823.5, 0.07948177307844162, 5.5142141963671065e-09,
    1.1697378756049588e-16, 2.9421932189583668e-24, 1.7039063329858448e-31, 4.6181293784427335e-39,
    8.926069952719742e-47, 2.9560271579670297e-55, 1.4288144919416937e-61, 1.5087957143768115e-69,
    8.745984901489727e-77, 2.7259592194302044e-84, 3.466425460095423e-92, 2.029072621869045e-99,
    1.0165151439335865e-107, 1.98955397136322e-114, 2.17504220311113e-122, 1.30640139725662e-129,
    5.875755751738335e-138, 2.4003590439364078e-144, 5.310284429316512e-152, 2.2759574222327251e-159,
    2.7031418136144588e-167, 1.1966396239691777e-174, 2.119052085468828e-182, 4.408392671998994e-190,
    5.2515332180974003e-197, 5.500871183096733e-205, 4.537194003765147e-212, 1.1718516639815195e-219,
    2.2980271396711445e-227, 1.0879584654508371e-234, 3.3676289942710826e-242, 5.327388324531778e-250,
    2.8898287572451714e-257, 5.866329596650969e-265, 2.1024678447593526e-272, 8.321039061967645e-280};
// sum + low += term, kept exactly.
FN void phx_add_turns_f64(double& sum, double& low, double term) {
  double s = sum + term;
  double v = s - sum;
  low = low + ((sum - (s - v)) + (term - v));
  sum = s;
}

FN void phx_add_part_f64(double& sum, double& low, double h, double l, double part) {
  double a = h * part, b = l * part;
  phx_add_turns_f64(sum, low, a - __builtin_rint(a));
  phx_add_turns_f64(sum, low, b - __builtin_rint(b));
}

// x = (turn / 4) 2 pi + angle + rest, |angle| <= pi / 4; turn in -2..2.
FN void phx_turns_f64(double x, double& turn, double& angle, double& rest) {
  double y = x * 0x1p-200;
  double h = phx_top_f64(y), l = y - h;
  int exponent = (int)(__builtin_bit_cast(unsigned long long, x) >> 52 & 2047) - 1077;
  exponent = exponent < 0 ? 0 : exponent;
  long long at = (exponent * 5243) >> 17;  // an index of 64 bits: g++ makes no gather of others
  at = at > 38 ? 38 : at;
  double sum = 0.0, low = 0.0;
  phx_add_part_f64(sum, low, h, l, phx_turn_parts_f64[at + 0]);
  phx_add_part_f64(sum, low, h, l, phx_turn_parts_f64[at + 1]);
  phx_add_part_f64(sum, low, h, l, phx_turn_parts_f64[at + 2]);
  phx_add_part_f64(sum, low, h, l, phx_turn_parts_f64[at + 3]);
  phx_add_part_f64(sum, low, h, l, phx_turn_parts_f64[at + 4]);
  phx_add_part_f64(sum, low, h, l, phx_turn_parts_f64[at + 5]);
  phx_add_part_f64(sum, low, h, l, phx_turn_parts_f64[at + 6]);
  phx_add_part_f64(sum, low, h, l, phx_turn_parts_f64[at + 7]);
  double whole = __builtin_rint(sum);
  double quarters = __builtin_rint((sum - whole) * 4.0);
  sum = (sum - whole) - quarters * 0.25;
  double both = sum + low;
  low = low - (both - sum);
  double top = phx_top_f64(both);
  low = top * -5.5636270456668466e-08 + ((both - top) + low) * 6.283185307179586;
  double exact = top * 6.283185362815857;
  bool small = __builtin_fabs(x) < 0.78;
  turn = quarters;
  angle = small ? x : exact + low;
  rest = small ? 0.0 : low - ((exact + low) - exact);
}

// sin(r + rest) - r: relative error of the sine 2^-58.
FN double phx_sin_tail_f64(double r, double rest) {
  double z = r * r;
  double p = 1.589542702732577e-10;
  p = p * z - 2.5050734319185154e-08;
  p = p * z + 2.755731353827463e-06;
  p = p * z - 0.0001984126982935828;
  p = p * z + 0.00833333333332184;
  p = p * z - 0.1666666666666663;
  return p * z * r + (rest - rest * 0.5 * z);
}

// What cos(r + rest) has beyond high, 1 - r^2 / 2 rounded: error 2^-64.
FN double phx_cos_tail_f64(double r, double rest, double& high) {
  double z = r * r;
  double p = -1.1359919028165674e-11;
  p = p * z + 2.0875729018654604e-09;
  p = p * z - 2.7557314399380077e-07;
  p = p * z + 2.4801587289667078e-05;
  p = p * z - 0.001388888888887447;
  p = p * z + 0.0416666666666666;
  double h = 0.5 * z;
  high = 1.0 - h;
  return ((1.0 - high) - h) + (p * z * z - r * rest);
}

FN double phx_sin_core_f64(double r, double rest) { return r + phx_sin_tail_f64(r, rest); }

FN double phx_cos_core_f64(double r, double rest) {
  double high;
  double tail = phx_cos_tail_f64(r, rest, high);
  return high + tail;
}

FN double ph_sin_f64(double x) {
  double turn, angle, rest;
  phx_turns_f64(x, turn, angle, rest);
  double v = turn * turn == 1.0 ? phx_cos_core_f64(angle, rest) : phx_sin_core_f64(angle, rest);
  v = (turn == -1.0) | (turn * turn == 4.0) ? -v : v;
  return x == 0.0 ? x : v;
}

FN double ph_cos_f64(double x) {
  double turn, angle, rest;
  phx_turns_f64(x, turn, angle, rest);
  double v = turn * turn == 1.0 ? phx_sin_core_f64(angle, rest) : phx_cos_core_f64(angle, rest);
  return (turn == 1.0) | (turn * turn == 4.0) ? -v : v;
}

// The quotient of sine and cosine, each with what its sum rounded off.
FN double ph_tan_f64(double x) {
  double turn, angle, rest, high;
  phx_turns_f64(x, turn, angle, rest);
  double tail = phx_sin_tail_f64(angle, rest);
  double s = angle + tail;
  double sl = tail - (s - angle);
  tail = phx_cos_tail_f64(angle, rest, high);
  double c = high + tail;
  double cl = tail - (c - high);
  bool quarter = turn * turn == 1.0;
  double n = quarter ? -c : s, nl = quarter ? -cl : sl;
  double d = quarter ? s : c, dl = quarter ? sl : cl;
  double q = n / d;
  double v = q + (nl - q * dl) / d;
  return x == 0.0 ? x : v;
}

// asin(s) = s + s z P(z), z = s^2 <= 1/4: relative error 2^-60. Beyond 1/2: asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)), where
// what the square root rounded off is kept.
FN double phx_asin_core_f64(double z) {
  double p = 0.032627496835162244;
  p = p * z - 0.020996323622730073;
  p = p * z + 0.021704786617828976;
  p = p * z + 0.003707826538800044;
  p = p * z + 0.010779784756460957;
  p = p * z + 0.011399013358059039;
  p = p * z + 0.013980805929576163;
  p = p * z + 0.017351613425514393;
  p = p * z + 0.022372214898474626;
  p = p * z + 0.030381942711300274;
  p = p * z + 0.04464285717453223;
  p = p * z + 0.07499999999970888;
  p = p * z + 0.1666666666666676;
  return p * z;
}

// sqrt(z) - top, where top is the upper half of s = sqrt(z) rounded.
FN double phx_sqrt_rest_f64(double z, double s, double top) {
  double d = s + top;
  return (z - top * top) / (d == 0.0 ? 1.0 : d);
}

FN double ph_asin_f64(double x) {
  double a = __builtin_fabs(x);
  bool big = a >= 0.5;
  double z = big ? (1.0 - a) * 0.5 : a * a;
  double s = __builtin_sqrt(z);
  double p = phx_asin_core_f64(z);
  double top = phx_top_f64(s);
  double c = phx_sqrt_rest_f64(z, s, top);
  double far = 2.0 * s * p - (6.123233995736766e-17 - 2.0 * c);
  far = 0.7853981633974483 - (far - (0.7853981633974483 - 2.0 * top));
  return __builtin_copysign(big ? far : a * p + a, x);
}

FN double ph_acos_f64(double x) {
  double a = __builtin_fabs(x);
  bool big = a >= 0.5;
  double z = big ? (1.0 - a) * 0.5 : x * x;
  double s = __builtin_sqrt(z);
  double p = phx_asin_core_f64(z);
  double top = phx_top_f64(s);
  double c = phx_sqrt_rest_f64(z, s, top);
  double near = 1.5707963267948966 - (x - (6.123233995736766e-17 - x * p));
  double w = 2.0 * (top + (s * p + c));
  double far = 3.141592653589793 - (w - 1.2246467991473532e-16);
  return big ? (x < 0.0 ? far : w) : near;
}

// atan(t) = t + t z P(z) on |t| <= 1/2: relative error 2^-61. atan(a / b), 0 <= a <= b, by t = a / b or, beyond 1/2 where
// a - b is exact, pi/4 + atan((a - b) / (a + b)). The other octants are counted in pi/4, whose first part has 50 bits, so
// that its multiples are exact. Only b may be infinite.
FN double phx_octant_f64(double a, double b, bool swapped, bool negative) {
  bool diagonal = a > b * 0.5;
  double den = diagonal ? a + b : b;
  double t = (diagonal ? a - b : a) / (den == 0.0 ? 1.0 : den);
  double z = t * t;
  double p = -0.008444291787549693;
  p = p * z + 0.02378189042991291;
  p = p * z - 0.03720893376230233;
  p = p * z + 0.04593162558653068;
  p = p * z - 0.05230993229478281;
  p = p * z + 0.05877980416189883;
  p = p * z - 0.06666244341866934;
  p = p * z + 0.0769227915796907;
  p = p * z - 0.09090907782294007;
  p = p * z + 0.1111111107240329;
  p = p * z - 0.14285714285036927;
  p = p * z + 0.19999999999994017;
  p = p * z - 0.33333333333333315;
  double r = p * z * t + t;
  double octants = diagonal ? 1.0 : 0.0;
  octants = swapped ? 2.0 - octants : octants;
  octants = negative ? 4.0 - octants : octants;
  r = swapped != negative ? -r : r;
  return octants * 0.7853981633974483 + (octants * 3.061616997868383e-17 + r);
}

FN double ph_atan_f64(double x) {
  double v = __builtin_fabs(x);
  bool big = v > 1.0;
  double r = phx_octant_f64(big ? 1.0 : v, big ? v : 1.0, big, false);
  return x != x ? x : __builtin_copysign(r, x);
}

FN double ph_atan2_f64(double y, double x) {
  double v = __builtin_fabs(y), h = __builtin_fabs(x);
  bool swapped = v > h;
  double a = swapped ? h : v, b = swapped ? v : h;
  bool endless = b == __builtin_inf();
  double scale = b > 1e300 ? 0x1p-100 : 1.0;
  a = endless ? (a == b ? 1.0 : 0.0) : a * scale;
  b = endless ? 1.0 : b * scale;
  double r = phx_octant_f64(a, b, swapped, __builtin_copysign(1.0, x) < 0.0);
  return (x != x) | (y != y) ? x + y : __builtin_copysign(r, y);
}

// |x| < 1: x + x P(x^2), relative error 2^-56. erfc(a) = exp(-a^2) (1 + C(t)) / (1 + 2a), t = (a - 4) / (a + 4) (after Schonfelder,
// 1978), C fitted on a from 0.45 to 28: relative error 2^-57. a^2 is taken exactly, as the square of a's top and a rest.
FN double phx_erf_core_f64(double x) {
  double z = x * x;
  double p = -7.583312582375655e-10;
  p = p * z + 1.3605135912786533e-08;
  p = p * z - 1.6181683859177279e-07;
  p = p * z + 1.644389748074307e-06;
  p = p * z - 1.4924449039343621e-05;
  p = p * z + 0.00012055279834529964;
  p = p * z - 0.0008548325469472332;
  p = p * z + 0.0052239775965432795;
  p = p * z - 0.02686617064194996;
  p = p * z + 0.11283791670936957;
  p = p * z - 0.37612638903183343;
  p = p * z + 0.12837916709551256;
  return x * p;
}

FN double phx_erfc_core_f64(double a) {
  a = a > 27.5 ? 27.5 : a;
  double t = (a - 4.0) / (a + 4.0);
  double c = -1.0791333275771049e-08;
  c = c * t - 1.2994897261081182e-08;
  c = c * t + 1.0641264909982581e-07;
  c = c * t + 6.931163913439962e-08;
  c = c * t - 8.232137356929737e-07;
  c = c * t + 2.9665827667407105e-07;
  c = c * t + 5.708895392248976e-06;
  c = c * t - 1.1222684810215554e-05;
  c = c * t - 2.439899425052129e-05;
  c = c * t + 0.0001506216156612748;
  c = c * t - 0.0001992567398343049;
  c = c * t - 0.0007577732131067972;
  c = c * t + 0.005031969985477695;
  c = c * t - 0.01619773407701687;
  c = c * t + 0.03716751553659857;
  c = c * t - 0.06633036580990687;
  c = c * t + 0.09373283499841026;
  c = c * t - 0.10103906603643562;
  c = c * t + 0.06809705425469081;
  c = c * t + 0.015379652102622559;
  c = c * t - 0.1396211168405625;
  c = c * t + 0.2329951186255525;
  double top = phx_top_f64(a);
  double high = -top * top, low = -(a - top) * (a + top);
  double k = phx_ln2s_f64(high);
  double r1 = high - k * 0.6931471803691238, r2 = k * 1.9082149292705877e-10 - low;
  double r = r1 - r2;
  double tail = phx_expm1_tail_f64(r) + ((r1 - r) - r2);
  double d = 1.0 + 2.0 * a;
  double lost = (2.0 * a - (d - 1.0)) / d;
  double sum = r + (c + tail);
  double q = (1.0 + (sum + (c * (r + tail) - lost * (1.0 + sum)))) / d;
  return phx_scale_f64(q, k);
}

FN double ph_erf_f64(double x) {
  double a = __builtin_fabs(x);
  double far = __builtin_copysign(1.0 - phx_erfc_core_f64(a), x);
  return a < 1.0 ? x + phx_erf_core_f64(x) : far;
}

FN double ph_erfc_f64(double x) {
  double a = __builtin_fabs(x);
  double far = phx_erfc_core_f64(a);
  far = x < 0.0 ? 2.0 - far : far;
  double near = 1.0 - (x + phx_erf_core_f64(x));
  return a < 0.46875 ? near : far;
}

// log2 in two doubles (after Dekker), so that y log2(x), up to 1100, keeps 2^-57 below the point. log2(m) = (2 / ln2) s W,
// s = (m - 1) / (m + 1), W = 1 + s^2 / 3 + s^4 R(s^2); R: error of W 2^-66.
FN void phx_log2_pair_f64(double x, double& high, double& low) {
  double n = phx_normal_f64(x);
  double e = phx_normal_exponent_f64(x), m = phx_mantissa_f64(n);
  double f = m - 1.0, d = m + 1.0;
  double s = f / d, s1 = phx_top_f64(s), d1 = phx_top_f64(d);
  double s2 = ((f - s1 * d1) - s1 * (m - (d1 - 1.0))) / d;
  double u1 = s1 * s1, u2 = s2 * (s1 + s1 + s2);
  double u = u1 + u2;
  double p = 0.06598211585405411;
  p = p * u + 0.0662840424771676;
  p = p * u + 0.07693378840786115;
  p = p * u + 0.09090892180380349;
  p = p * u + 0.11111111259988757;
  p = p * u + 0.14285714285049703;
  p = p * u + 0.20000000000001128;
  double ut = phx_top_f64(u), ur = (u1 - ut) + u2;
  double c1 = ut * 0.3333333358168602;
  double c2 = ut * -2.483526865641276e-09 + (ur * 0.3333333333333333 + p * u * u);
  double w = 1.0 + c1;
  double w2 = (c1 - (w - 1.0)) + c2;
  double wt = phx_top_f64(w);
  double v1 = s1 * wt;
  double v2 = s1 * ((w - wt) + w2) + s2 * (w + w2);
  double v = v1 + v2;
  double vt = phx_top_f64(v), vr = (v1 - vt) + v2;
  double l1 = vt * 2.8853901028633118;
  double l2 = vt * -2.1085384952858276e-08 + vr * 2.8853900817779268;
  double sum = e + l1;
  l2 = l2 + (l1 - (sum - e));
  high = sum + l2;
  low = l2 - (high - sum);
}

FN double ph_pow_f64(double x, double y) {
  double a = __builtin_fabs(x), h, l;
  phx_log2_pair_f64(a, h, l);
  bool edge = (a == 0.0) | (a == __builtin_inf());
  h = edge ? (a == 0.0 ? -__builtin_inf() : a) : h;
  double t = y * h;
  bool far = (t < -1100.0) | (t > 1100.0);
  double yt = phx_top_f64(y), ht = phx_top_f64(h);
  double p1 = yt * ht;
  double p2 = yt * (h - ht) + ((y - yt) * h + y * l);
  double p = p1 + p2;
  double rest = p2 - (p - p1);
  p = far ? (t < 0.0 ? -1100.0 : 1100.0) : p;
  rest = far ? 0.0 : rest;
  double k = phx_near_f64(p);
  double v = phx_scale_f64(phx_exp2_core_f64((p - k) + rest), k);
  bool whole = __builtin_trunc(y) == y;
  bool odd = whole & (__builtin_trunc(y * 0.5) * 2.0 != y);
  bool negative = __builtin_copysign(1.0, x) < 0.0;
  v = negative & odd ? -v : v;
  v = (x < 0.0) & !whole & (a != __builtin_inf()) ? __builtin_nan("") : v;
  v = (x != x) | (y != y) ? x + y : v;
  bool one = (x == 1.0) | (y == 0.0) | ((x == -1.0) & (__builtin_fabs(y) == __builtin_inf()));
  return one ? 1.0 : v;
}

// Long division of the mantissas as integers, 11 bits a step. Not vectorized: quotients of doubles may have 2098 bits.
FN double ph_fmod_f64(double x, double y) {
  unsigned long long a = __builtin_bit_cast(unsigned long long, __builtin_fabs(x));
  unsigned long long b = __builtin_bit_cast(unsigned long long, __builtin_fabs(y));
  const unsigned long long inf = 0x7ff0000000000000ull, one = 1ull << 52;
  bool bad = (a >= inf) | (b > inf) | (b == 0);
  bool less = (a < b) | bad;
  unsigned long long ea = a >> 52, eb = b >> 52;
  unsigned long long r = ea ? (a & (one - 1)) | one : a;
  unsigned long long d = eb ? (b & (one - 1)) | one : b;
  ea = ea ? ea : 1;
  eb = eb ? eb : 1;
  long long bits = less ? 0 : (long long)(ea - eb);
  d = less ? one : d;
  r = less ? 0 : r % d;
  while (bits > 0) {
    long long step = bits < 11 ? bits : 11;
    r = (r << step) % d;
    bits -= step;
  }
  double v = phx_scale_f64((double)(long long)r, (double)(long long)eb - 1075.0);
  v = less ? __builtin_fabs(x) : v;
  return bad ? __builtin_nan("") : __builtin_copysign(v, x);
}
)";

}  // namespace

std::string F64MathText() { return kText; }

}  // namespace preheat
