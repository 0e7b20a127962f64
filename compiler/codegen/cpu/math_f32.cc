#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu/math_text.h"

namespace preheat {
namespace {

constexpr char kText[] = R"(
// All polynomials are minimax (Remez exchange in 50 digits; coefficients rounded one by one, the rest fitted anew). Where a
// comment says "error 2^-n" it is the polynomial's own, before rounding in its evaluation.

// Rounding by a magic number: adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum.
FN float phx_near_f32(float x) { return (x + 12582912.0f) - 12582912.0f; }

// The same sum with the exponent's bias in it, shifted into the exponent field.
// 2^k for a whole k in [-127, 127]; -127 gives 0.
FN float phx_pow2_f32(float k) { return __builtin_bit_cast(float, __builtin_bit_cast(unsigned, k + 12583039.0f) << 23); }

// exp(r) - 1 on |r| <= ln2 / 2 as r + r^2 P(r): relative error 2^-26.
FN float phx_expm1_core_f32(float r) {
  float p = 1.3922023e-3f;
  p = p * r + 8.367012e-3f;
  p = p * r + 0.0416666f;
  p = p * r + 0.16666539f;
  p = p * r + 0.5f;
  return p * (r * r) + r;
}

// Cody and Waite: k ln2 in two parts, the first with so few bits that its product with k is exact.
FN float phx_ln2_rest_f32(float x, float k) { return (x - k * 0.693359375f) - k * -2.12194440e-4f; }

// The scale is applied in two steps, so that results below the least normal number are rounded once and not flushed.
FN float ph_exp_f32(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  float k = phx_near_f32(x * 1.44269504f);
  float p = phx_expm1_core_f32(phx_ln2_rest_f32(x, k));
  float h = phx_near_f32(k * 0.5f);
  float s = phx_pow2_f32(h);
  return (s * p + s) * phx_pow2_f32(k - h);
}

// 2^r on |r| <= 1/2 as 1 + r Q(r): error 2^-32.5. No rounding in the reduction.
FN float ph_exp2_f32(float x) {
  x = x < -151.0f ? -151.0f : x;
  x = x > 129.0f ? 129.0f : x;
  float k = phx_near_f32(x);
  float r = x - k;
  float p = 1.4699359e-5f;
  p = p * r + 1.5452754e-4f;
  p = p * r + 1.3336607e-3f;
  p = p * r + 9.618086e-3f;
  p = p * r + 0.05550406f;
  p = p * r + 0.2402265f;
  p = p * r + 0.6931472f;
  p = p * r;
  float h = phx_near_f32(k * 0.5f);
  float s = phx_pow2_f32(h);
  return (s * p + s) * phx_pow2_f32(k - h);
}

// 2^k (exp(r) - 1) + (2^k - 1): both terms are exact or small, so nothing cancels near 0. k = 128 only just overflows.
FN float ph_expm1_f32(float x) {
  float c = x < -18.0f ? -18.0f : x;
  c = c > 89.0f ? 89.0f : c;
  float k = phx_near_f32(c * 1.44269504f);
  float p = phx_expm1_core_f32(phx_ln2_rest_f32(c, k));
  float top = k > 127.0f ? 127.0f : k;
  float s = phx_pow2_f32(top);
  float r = k > 127.0f ? (s * p + s) * 2.0f : s * p + (s - 1.0f);
  return __builtin_copysignf(r, x);
}

// |x| < 0.55: x + x^3 P(x^2), relative error 2^-29.7. Above: 1 - 2 / (exp(2 |x|) + 1). From 10 on it is 1.
FN float ph_tanh_f32(float x) {
  float a = __builtin_fabsf(x);
  float z = x * x;
  float q = -6.2428555e-3f;
  q = q * z + 0.021050714f;
  q = q * z - 0.053847548f;
  q = q * z + 0.13332544f;
  q = q * z - 0.33333316f;
  float near = q * z * a + a;
  float c = a > 10.0f ? 20.0f : a + a;
  float k = phx_near_f32(c * 1.44269504f);
  float s = phx_pow2_f32(k);
  float far = 1.0f - 2.0f / (s * phx_expm1_core_f32(phx_ln2_rest_f32(c, k)) + (s + 1.0f));
  return __builtin_copysignf(a < 0.55f ? near : far, x);
}

// x = 2^e m with m in [sqrt(1/2), sqrt(2)): subtracting sqrt(1/2)'s bits makes the exponent field round as wanted.
FN float phx_exponent_f32(float normal) {
  return (float)((__builtin_bit_cast(int, normal) - 0x3f3504f3) >> 23);
}

FN float phx_mantissa_f32(float normal) {
  int bits = __builtin_bit_cast(int, normal);
  return __builtin_bit_cast(float, bits - ((bits - 0x3f3504f3) & (int)0xff800000));
}

// log(1 + f) = f - f^2 / 2 + f^3 P(f) on [sqrt(1/2) - 1, sqrt(2) - 1]: relative error 2^-30.
// log(1 + f) - f + f^2 / 2
FN float phx_log_tail_f32(float f) {
  float p = 0.067416385f;
  p = p * f - 0.11663827f;
  p = p * f + 0.11884209f;
  p = p * f - 0.12407634f;
  p = p * f + 0.14220409f;
  p = p * f - 0.1666788f;
  p = p * f + 0.20002067f;
  p = p * f - 0.25000012f;
  p = p * f + 0.33333313f;
  return p * f * (f * f);
}

FN float ph_log_f32(float x) {
  bool tiny = x < 1.17549435e-38f;
  float n = tiny ? x * 8388608.0f : x;
  float e = phx_exponent_f32(n) - (tiny ? 23.0f : 0.0f);
  float f = phx_mantissa_f32(n) - 1.0f;
  float y = phx_log_tail_f32(f) + e * -2.12194440e-4f;
  y = y - 0.5f * f * f;
  y = e * 0.693359375f + (f + y);
  y = x == __builtin_inff() ? x : y;
  return x > 0.0f ? y : x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
}

// |x| < 1: x + x P(x^2), relative error 2^-29.4. Above: 1 - Q(|x| - 2.5), Q = erfc with error 2^-27; erf rounds to 1 from 3.92.
FN float ph_erf_f32(float x) {
  float a = __builtin_fabsf(x);
  float z = x * x;
  float p = 7.806905e-5f;
  p = p * z - 7.997853e-4f;
  p = p * z + 5.187162e-3f;
  p = p * z - 0.026853347f;
  p = p * z + 0.11283579f;
  p = p * z - 0.37612626f;
  p = p * z + 0.12837917f;
  float near = x + x * p;
  float t = (a > 3.95f ? 3.95f : a) - 2.5f;
  float q = -1.0162805e-6f;
  q = q * t - 6.2562697e-7f;
  q = q * t + 1.6606215e-5f;
  q = q * t - 1.6925822e-5f;
  q = q * t - 8.353655e-5f;
  q = q * t + 2.6852163e-4f;
  q = q * t - 2.554342e-4f;
  q = q * t - 5.57847e-4f;
  q = q * t + 2.7952832e-3f;
  q = q * t - 6.1105634e-3f;
  q = q * t + 8.623343e-3f;
  q = q * t - 8.351413e-3f;
  q = q * t + 5.4455996e-3f;
  q = q * t - 2.1782094e-3f;
  q = q * t + 4.069541e-4f;
  float far = __builtin_copysignf(1.0f - q, x);
  return a < 1.0f ? near : far;
}

// Payne and Hanek without a table: 1 / (2 pi) in seven parts of 29 bits, so that each product with a float is exact in
// double, and so is taking whole turns off it. Sums of the first parts are exact too where they cancel, which leaves the
// angle right to 2^-50 for every float. The last two products are below one turn.
// x = (turn / 4) 2 pi + angle, |angle| <= pi / 4; turn in -2..2.
FN void phx_turns_f32(float xf, double& turn, double& angle) {
  double x = xf;
  double a = x * 0.15915494272485375, b = x * 3.6704158115630214e-10, c = x * 5.690025167992954e-19;
  double d = x * 1.4703036846932608e-27, e = x * 2.5867171752090537e-36;
  a = a - __builtin_rint(a);
  b = b - __builtin_rint(b);
  c = c - __builtin_rint(c);
  d = d - __builtin_rint(d);
  e = e - __builtin_rint(e);
  double rest = x * 9.458140877728297e-46 + x * 9.301187196294348e-54;
  double sum = ((((a + b) + c) + d) + e) + rest;
  double whole = __builtin_rint(sum);
  turn = __builtin_rint((sum - whole) * 4.0);
  angle = ((((((a - whole) - turn * 0.25) + b) + c) + d) + e) + rest;
  angle = angle * 6.283185307179586;
}

// |angle| <= pi / 4; sin: relative error 2^-37, cos: 2^-43.
FN double phx_sin_core_f32(double r) {
  double z = r * r;
  double p = 2.7181147370849577e-6;
  p = p * z - 1.9839311563773295e-4;
  p = p * z + 8.333329302725026e-3;
  p = p * z - 0.16666666640779657;
  return p * z * r + r;
}

FN double phx_cos_core_f32(double r) {
  double z = r * r;
  double p = -2.721016503011416e-7;
  p = p * z + 2.4799519099460547e-5;
  p = p * z - 1.388888374982374e-3;
  p = p * z + 0.04166666662278482;
  p = p * z - 0.5;
  return p * z + 1.0;
}

FN float ph_sin_f32(float x) {
  double turn, angle;
  phx_turns_f32(x, turn, angle);
  double v = turn * turn == 1.0 ? phx_cos_core_f32(angle) : phx_sin_core_f32(angle);
  v = (turn == -1.0) | (turn * turn == 4.0) ? -v : v;
  return x == 0.0f ? x : (float)v;
}

FN float ph_cos_f32(float x) {
  double turn, angle;
  phx_turns_f32(x, turn, angle);
  double v = turn * turn == 1.0 ? phx_sin_core_f32(angle) : phx_cos_core_f32(angle);
  return (float)((turn == 1.0) | (turn * turn == 4.0) ? -v : v);
}

FN float ph_tan_f32(float x) {
  double turn, angle;
  phx_turns_f32(x, turn, angle);
  double s = phx_sin_core_f32(angle), c = phx_cos_core_f32(angle);
  bool quarter = turn * turn == 1.0;
  double v = (quarter ? -c : s) / (quarter ? s : c);
  return x == 0.0f ? x : (float)v;
}

// In double: log2 by s P(s^2), s = (m - 1) / (m + 1), relative error 2^-45; 2^r by 1 + r Q(r), 2^-29... of which a float
// sees no more than half a unit. The exponent is at most 2^7, so 2^-38 of it remain.
FN float ph_pow_f32(float xf, float yf) {
  double x = __builtin_fabs((double)xf), y = yf;
  double e = phx_exponent_f64(x), m = phx_mantissa_f64(x);
  double s = (m - 1.0) / (m + 1.0);
  double z = s * s;
  double p = 0.2829036321075184;
  p = p * z + 0.319905466607669;
  p = p * z + 0.41220925763740934;
  p = p * z + 0.5770779423170597;
  p = p * z + 0.9617966941134872;
  p = p * z + 2.88539008177785;
  double l = p * s + e;
  l = x == 0.0 ? -__builtin_inf() : x == __builtin_inf() ? x : l;
  double t = y * l;
  t = t < -1000.0 ? -1000.0 : t;
  t = t > 1000.0 ? 1000.0 : t;
  double k = phx_near_f64(t);
  double r = t - k;
  double q = 1.531495458892118e-5;
  q = q * r + 1.5467120345318168e-4;
  q = q * r + 1.333343066046581e-3;
  q = q * r + 9.618036883360015e-3;
  q = q * r + 0.055504109628310115;
  q = q * r + 0.2402265107599894;
  q = q * r + 0.6931471805416201;
  double v = (q * r + 1.0) * phx_pow2_f64(k);
  bool whole = __builtin_trunc(y) == y;
  bool odd = whole & (__builtin_trunc(y * 0.5) * 2.0 != y);
  bool negative = __builtin_copysignf(1.0f, xf) < 0.0f;
  v = negative & odd ? -v : v;
  v = (xf < 0.0f) & !whole & (x != __builtin_inf()) ? __builtin_nan("") : v;
  v = (xf != xf) | (yf != yf) ? (double)(xf + yf) : v;
  bool one = (xf == 1.0f) | (yf == 0.0f) | ((xf == -1.0f) & ((y == __builtin_inf()) | (y == -__builtin_inf())));
  return one ? 1.0f : (float)v;
}

// Long division in double, 28 bits of the quotient a step, from 2^252 |y| down: float quotients have at most 277 bits. A
// step's quotient of 29 bits times y's 24 is exact, and so is the remainder; the quotient may be one off, either way.
FN double phx_fmod_step_f32(double r, double y, double inverse) {
  r = r - __builtin_trunc(r * inverse) * y;
  r = r < 0.0 ? r + y : r;
  return r >= y ? r - y : r;
}

FN float ph_fmod_f32(float xf, float yf) {
  double x = __builtin_fabs((double)xf), y = __builtin_fabs((double)yf);
  double v = 1.0 / y;
  double r = phx_fmod_step_f32(x, y * 0x1p252, v * 0x1p-252);
  r = phx_fmod_step_f32(r, y * 0x1p224, v * 0x1p-224);
  r = phx_fmod_step_f32(r, y * 0x1p196, v * 0x1p-196);
  r = phx_fmod_step_f32(r, y * 0x1p168, v * 0x1p-168);
  r = phx_fmod_step_f32(r, y * 0x1p140, v * 0x1p-140);
  r = phx_fmod_step_f32(r, y * 0x1p112, v * 0x1p-112);
  r = phx_fmod_step_f32(r, y * 0x1p84, v * 0x1p-84);
  r = phx_fmod_step_f32(r, y * 0x1p56, v * 0x1p-56);
  r = phx_fmod_step_f32(r, y * 0x1p28, v * 0x1p-28);
  r = phx_fmod_step_f32(r, y, v);
  r = y == __builtin_inf() ? x : r;
  float f = __builtin_copysignf((float)r, xf);
  bool bad = (x == __builtin_inf()) | (y == 0.0) | (xf != xf) | (yf != yf);
  return bad ? __builtin_nanf("") : f;
}
)";

// The rest is rounded from double: seldom hot, and right to half a unit.
constexpr const char* kFromDouble[] = {"log2", "log10", "log1p", "asin",  "acos",  "atan",
                                       "sinh", "cosh",  "asinh", "acosh", "atanh", "erfc"};

}  // namespace

std::string F32MathText() {
  std::string text = kText;
  for (const char* op : kFromDouble) {
    absl::StrAppend(&text, "FN float ph_", op, "_f32(float x) { return (float)ph_", op, "_f64((double)x); }\n");
  }
  absl::StrAppend(&text,
                  "FN float ph_atan2_f32(float y, float x) { return (float)ph_atan2_f64((double)y, (double)x); }\n");
  return text;
}

}  // namespace preheat
