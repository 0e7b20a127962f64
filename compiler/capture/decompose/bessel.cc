// Bessel's functions and Airy's: a polynomial near zero, an asymptotic form with fitted factors beyond. Coefficients
// are printed by fit_special.py.

#include <cmath>

#include "compiler/capture/decompose/polynomial.h"

namespace preheat::decompose {
namespace {

// --- Modified, first kind: times exp(-|x|). [0, 8] and beyond, there by 8/|x| ---

struct Halves {
  Value size;       // |x|
  Value small;      // |x| <= 8
  Value near, far;  // the polynomials' arguments, in [-1, 1]
};
Halves SplitAtEight(Builder& b, Value x) {
  Value size = Abs(b, x);
  Value near = b.Add(b.Mul(Clamped(b, size, 0, 8), 0.25), -1.0);
  Value far = b.Add(DivideNumber(b, 16, b.Binary(Op::kMax, size, Scalar(8.0))), -1.0);
  return {size, b.Binary(Op::kLe, size, Scalar(8.0)), near, far};
}

Value ScaledI0(Builder& b, Value x) {
  static constexpr std::array kNear = {-0.000817972546, 0.00197830876, -0.000899162406, 0.00124037947, -0.00776633266,
                                       0.0145077776,    -0.0190906641, 0.0286252844,    -0.0431948777, 0.0573258882,
                                       -0.0695000632,   0.0791670574,  -0.0849674182,   0.0873540401,  -0.0890432894,
                                       0.0945152284,    -0.113004328,  0.207001924};
  static constexpr std::array kFar = {1.08298983e-07, 3.63171031e-07, 1.47679211e-06, 1.11115255e-05,
                                      0.000136216843, 0.00336055585,  0.402176509};
  Halves h = SplitAtEight(b, x);
  Value far = b.Div(Polynomial(b, h.far, kFar), Sqrt(b, h.size));
  return b.Where(h.small, Polynomial(b, h.near, kNear), far);
}

Value ScaledI1(Builder& b, Value x) {
  static constexpr std::array kNear = {-0.000119315815, 0.000307029646, -0.000221153768, 0.000412977838, -0.00166623656,
                                       0.00335892989,   -0.00545739864, 0.00936950284,   -0.0155984901,  0.0237616592,
                                       -0.0336660111,   0.0446596864,   -0.0552805634,   0.0637688645,   -0.0684825865,
                                       0.0680575449,    -0.0611243382,  0.0446877102};
  static constexpr std::array kFar = {-1.22124985e-07, -4.21555437e-07, -1.8267145e-06, -1.50033231e-05,
                                      -0.000219236669, -0.00974958153,  0.389398459};
  Halves h = SplitAtEight(b, x);
  Value near = b.Mul(x, Polynomial(b, h.near, kNear));
  Value far = b.Binary(Op::kCopySign, b.Div(Polynomial(b, h.far, kFar), Sqrt(b, h.size)), x);
  return b.Where(h.small, near, far);
}

Value I0(Builder& b, Value x) { return b.Mul(ScaledI0(b, x), Exp(b, Abs(b, x))); }
Value I1(Builder& b, Value x) { return b.Mul(ScaledI1(b, x), Exp(b, Abs(b, x))); }

// --- Modified, second kind: [0, 2], with the logarithm times the first kind; beyond by 2/x, times exp(x) ---

Value FarArgument(Builder& b, Value x) { return b.Add(DivideNumber(b, 4, b.Binary(Op::kMax, x, Scalar(2.0))), -1.0); }
Value NearArgument(Builder& b, Value x) {
  Value within = b.Binary(Op::kMin, x, Scalar(2.0));
  return b.Add(b.Mul(b.Mul(within, within), 0.5), -1.0);
}

Value K0(Builder& b, Value x, bool scaled) {
  static constexpr std::array kRest = {6.09431609e-08, 4.05566572e-06, 0.000182805554, 0.00505339206,
                                       0.0717770103,   0.340497321,    -0.303620773};
  static constexpr std::array kFirst = {2.35807e-06,  0.000119869234, 0.00392856492,
                                        0.0735898502, 0.635861728,    1.56608293};
  static constexpr std::array kFar = {1.05168567e-06, -2.97762074e-06, 6.7498384e-06, -2.40971798e-05, 9.96332931e-05,
                                      -0.00047995238, 0.00303288628,   -0.0310714479, 1.21859534};
  Value t = NearArgument(b, x), log = Log(b, b.Mul(x, 0.5));
  Value near = b.Sub(Polynomial(b, t, kRest), b.Mul(log, Polynomial(b, t, kFirst)));
  Value far = b.Div(Polynomial(b, FarArgument(b, x), kFar), Sqrt(b, x));
  if (scaled) near = b.Mul(near, Exp(b, x));
  if (!scaled) far = b.Mul(far, Exp(b, Neg(b, x)));
  return b.Where(b.Binary(Op::kGt, x, Scalar(2.0)), far, near);
}

Value K1(Builder& b, Value x, bool scaled) {
  static constexpr std::array kRest = {-4.47424959e-09, -3.49657104e-07, -1.91097621e-05, -0.000672474624,
                                       -0.0132546429,   -0.108664621,    -0.0574558561};
  static constexpr std::array kFirst = {1.9420412e-07, 1.17913321e-05, 0.000479282732,
                                        0.011785694,   0.147179737,    0.635861728};
  static constexpr std::array kFar = {-1.27062105e-06, 3.66839412e-06, -8.66435023e-06, 3.20839872e-05, -0.000139675715,
                                      0.000735942321,  -0.00556672338, 0.103349721,     1.36315189};
  Value t = NearArgument(b, x), log = Log(b, b.Mul(x, 0.5));
  Value sum = b.Add(Polynomial(b, t, kRest), b.Mul(log, Polynomial(b, t, kFirst)));
  Value near = b.Add(DivideNumber(b, 1, x), b.Mul(x, sum));
  Value far = b.Div(Polynomial(b, FarArgument(b, x), kFar), Sqrt(b, x));
  if (scaled) near = b.Mul(near, Exp(b, x));
  if (!scaled) far = b.Mul(far, Exp(b, Neg(b, x)));
  return Pick(b, Equal(b, x, 0), INFINITY, b.Where(b.Binary(Op::kGt, x, Scalar(2.0)), far, near));
}

// --- Oscillating: [0, 8] by the square; beyond a wave with fitted amplitudes P and Q ---

struct Wave {
  Value p, q, cosine, sine, amplitude;
};

template <size_t N>
Wave WaveOf(Builder& b, Value size, double phase, const std::array<double, N>& p, const std::array<double, N>& q) {
  Value far = b.Binary(Op::kMax, size, Scalar(8.0)), u = DivideNumber(b, 8, far);
  Value t = b.Add(b.Mul(b.Mul(u, u), 2.0), -1.0), angle = b.Add(far, -phase);
  return {Polynomial(b, t, p), b.Mul(u, Polynomial(b, t, q)), b.Unary(Op::kCos, angle), b.Unary(Op::kSin, angle),
          Sqrt(b, DivideNumber(b, 2 / M_PI, far))};
}
Value First(Builder& b, const Wave& w) { return b.Mul(w.amplitude, b.Sub(b.Mul(w.p, w.cosine), b.Mul(w.q, w.sine))); }
Value Second(Builder& b, const Wave& w) { return b.Mul(w.amplitude, b.Add(b.Mul(w.p, w.sine), b.Mul(w.q, w.cosine))); }
Wave WaveZero(Builder& b, Value size) {
  static constexpr std::array kP = {1.30038256e-08, -2.0682206e-07, 6.13736566e-06, -0.00053636693, 0.999457276};
  static constexpr std::array kQ = {-5.79187877e-09, 7.18886265e-08, -1.47710774e-06, 6.8331283e-05, -0.0155551139};
  return WaveOf(b, size, M_PI_4, kP, kQ);
}
Wave WaveOne(Builder& b, Value size) {
  static constexpr std::array kP = {-1.49294871e-08, 2.47103479e-07, -7.95963902e-06, 0.000898804505, 1.00090703};
  static constexpr std::array kQ = {6.55523291e-09, -8.38378198e-08, 1.82116775e-06, -9.62143571e-05, 0.046776874};
  return WaveOf(b, size, 3 * M_PI_4, kP, kQ);
}
// The square, from [0, 64] to [-1, 1].
Value SquareArgument(Builder& b, Value size) {
  Value within = b.Binary(Op::kMin, size, Scalar(8.0));
  return b.Add(b.Mul(b.Mul(within, within), 1.0 / 32), -1.0);
}
Value IsFar(Builder& b, Value size) { return b.Binary(Op::kGt, size, Scalar(8.0)); }

Value NearJ0(Builder& b, Value size) {
  static constexpr std::array kSquare = {
      -7.95883862e-09, 1.60741275e-07, -2.71768939e-06, 3.84715738e-05, -0.000443545963, 0.0040580801, -0.0284727186,
      0.145988848,     -0.507468046,   1.03837946,      -0.808088808,   -0.648469283,    0.930301247,  0.0458296649};
  return Polynomial(b, SquareArgument(b, size), kSquare);
}
// J1(x) / x
Value NearJ1(Builder& b, Value size) {
  static constexpr std::array kSquare = {
      6.46908184e-09, -1.20629901e-07, 1.86840524e-06, -2.40445487e-05, 0.00024949461, -0.00202904021, 0.0124568144,
      -0.054745818,   0.158583764,     -0.259594865,   0.151516651,     0.0810586604,  -0.058143828};
  return Polynomial(b, SquareArgument(b, size), kSquare);
}

Value J0(Builder& b, Value x) {
  Value size = Abs(b, x);
  return b.Where(IsFar(b, size), First(b, WaveZero(b, size)), NearJ0(b, size));
}
Value J1(Builder& b, Value x) {
  Value size = Abs(b, x), wave = First(b, WaveOne(b, size));
  Value far = b.Where(Less(b, x, 0), Neg(b, wave), wave);
  return b.Where(IsFar(b, size), far, b.Mul(x, NearJ1(b, size)));
}

Value Y0(Builder& b, Value x) {
  static constexpr std::array kRest = {-7.16361189e-10, 1.64918494e-08, -3.21845812e-07, 5.32116735e-06,
                                       -7.27954226e-05, 0.000806158722, -0.00702574106,  0.0463670476,
                                       -0.218957471,    0.672177078,    -1.07754773,     0.144126324,
                                       1.64709648,      -0.82843589,    -0.382250654};
  Value logarithm = b.Mul(b.Mul(Log(b, x), NearJ0(b, x)), 2 / M_PI);
  Value near = b.Add(Polynomial(b, SquareArgument(b, x), kRest), logarithm);
  return b.Where(IsFar(b, x), Second(b, WaveZero(b, x)), near);
}
Value Y1(Builder& b, Value x) {
  static constexpr std::array kRest = {6.20034803e-10,  -1.32406293e-08, 2.38045088e-07, -3.60087974e-06, 4.4674333e-05,
                                       -0.000443817425, 0.00342249074,   -0.0196287568,  0.0785478692,    -0.196398399,
                                       0.235072092,     0.0233675717,    -0.243377431,   0.0707598588};
  Value logarithm = b.Mul(b.Mul(Log(b, x), NearJ1(b, x)), 2 / M_PI);
  Value near = b.Mul(x, b.Add(Polynomial(b, SquareArgument(b, x), kRest), logarithm));
  near = b.Sub(near, DivideNumber(b, 2 / M_PI, x));
  return Pick(b, Equal(b, x, 0), -INFINITY, b.Where(IsFar(b, x), Second(b, WaveOne(b, x)), near));
}

Value SphericalJ0(Builder& b, Value x) {
  Value ratio = b.Div(b.Unary(Op::kSin, x), x);
  return Pick(b, Equal(b, Abs(b, x), INFINITY), 0, Pick(b, Equal(b, x, 0), 1, ratio));
}

// --- Airy: [-2.5, 2.5]; beyond by 2.6 / zeta, zeta = 2/3 |x|^(3/2) ---

Value Airy(Builder& b, Value x) {
  static constexpr std::array kNear = {0.0105411701,   -0.011933486, -0.0514792682, 0.117129651,  -0.00193236875,
                                       -0.320372327,   0.48212676,   0.00192400492, -0.842586383, 0.924318348,
                                       2.71287863e-06, -0.647040251, 0.355028054};
  static constexpr std::array kDecay = {1.18683349e-06, -4.70657456e-06, 1.94234282e-05, -0.000111173206,
                                        0.000855175984, -0.0112021041,   0.987806222};
  static constexpr std::array kP = {-4.68095433e-07, 1.04884335e-06, -1.70499068e-06, 5.74613787e-06,
                                    -2.52212238e-05, 0.000159560307, -0.00231043434,  0.997495812};
  static constexpr std::array kQ = {-6.67643272e-07, 1.37604998e-06, -1.78541878e-06, 5.32505572e-06,
                                    -1.99868444e-05, 9.47165411e-05, -0.00078783907,  0.0257976985};
  Value size = b.Binary(Op::kMax, Abs(b, x), Scalar(2.5)), root = Sqrt(b, size);
  Value zeta = b.Mul(b.Mul(size, root), 2.0 / 3), u = DivideNumber(b, 2.6, zeta);
  Value amplitude = DivideNumber(b, 1 / std::sqrt(M_PI), Sqrt(b, root));
  Value decay = Polynomial(b, b.Add(b.Mul(u, 2.0), -1.0), kDecay);
  Value above = b.Mul(b.Mul(amplitude, 0.5), b.Mul(Exp(b, Neg(b, zeta)), decay));
  Value t = b.Add(b.Mul(b.Mul(u, u), 2.0), -1.0), angle = b.Add(zeta, -M_PI_4);
  Value even = b.Mul(Polynomial(b, t, kP), b.Unary(Op::kCos, angle));
  Value odd = b.Mul(b.Mul(u, Polynomial(b, t, kQ)), b.Unary(Op::kSin, angle));
  Value below = b.Mul(amplitude, b.Add(even, odd));
  Value near = Polynomial(b, b.Mul(Clamped(b, x, -2.5, 2.5), 0.4), kNear);
  Value outside = b.Where(Less(b, x, 0), below, above);
  return b.Where(b.Binary(Op::kGt, Abs(b, x), Scalar(2.5)), outside, near);
}

void AddRows(OpTable& table, std::initializer_list<const char*> names, SpecialFn fn) {
  for (const char* name : names) table.emplace_back(name, Special(fn));
}

}  // namespace

OpTable BesselOps() {
  OpTable table;
  AddRows(table, {"aten.i0.default", "aten.special_i0.default", "aten.special_modified_bessel_i0.default"}, I0);
  AddRows(table, {"aten.special_i1.default", "aten.special_modified_bessel_i1.default"}, I1);
  AddRows(table, {"aten.special_i0e.default"}, ScaledI0);
  AddRows(table, {"aten.special_i1e.default"}, ScaledI1);
  AddRows(table, {"aten.special_modified_bessel_k0.default"}, [](Builder& b, Value x) { return K0(b, x, false); });
  AddRows(table, {"aten.special_modified_bessel_k1.default"}, [](Builder& b, Value x) { return K1(b, x, false); });
  AddRows(table, {"aten.special_scaled_modified_bessel_k0.default"},
          [](Builder& b, Value x) { return K0(b, x, true); });
  AddRows(table, {"aten.special_scaled_modified_bessel_k1.default"},
          [](Builder& b, Value x) { return K1(b, x, true); });
  AddRows(table, {"aten.special_bessel_j0.default"}, J0);
  AddRows(table, {"aten.special_bessel_j1.default"}, J1);
  AddRows(table, {"aten.special_bessel_y0.default"}, Y0);
  AddRows(table, {"aten.special_bessel_y1.default"}, Y1);
  AddRows(table, {"aten.special_spherical_bessel_j0.default"}, SphericalJ0);
  AddRows(table, {"aten.special_airy_ai.default"}, Airy);
  return table;
}

}  // namespace preheat::decompose
