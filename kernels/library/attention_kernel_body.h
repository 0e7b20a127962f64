// The rows of attention, in the terms of micro_kernel_body.h, which micro_kernel_<level>.cc includes first.

namespace preheat::library {
namespace {

typedef float Floats __attribute__((vector_size(PREHEAT_VECTOR_BYTES), may_alias));
typedef int32_t Ints __attribute__((vector_size(PREHEAT_VECTOR_BYTES), may_alias));
constexpr int kFloats = PREHEAT_VECTOR_BYTES / static_cast<int>(sizeof(float));

// exp(x) for x <= 0 within 2 ulp; what is under the smallest normal number is 0; NaN stays. x = n ln 2 + r with
// |r| <= ln 2 / 2, and exp(r) by its series to r^7, whose rest is under 6e-9 there (Cody and Waite's reduction).
inline Floats ExpOfNegative(Floats x) {
  constexpr float kLowest = -87.33654f, kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const Floats lowest = Floats{} + kLowest;
  const Floats bounded = x < lowest ? lowest : x;
  const Floats rounded = bounded * 1.44269504f + kRound;
  const Floats n = rounded - kRound;
  const Floats r = bounded - n * 0.693359375f + n * 2.12194440e-4f;
  Floats p = r * (1.0f / 5040) + (1.0f / 720);
  p = p * r + (1.0f / 120);
  p = p * r + (1.0f / 24);
  p = p * r + (1.0f / 6);
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const Floats round = Floats{} + kRound;
  const Ints exponent = reinterpret_cast<const Ints&>(rounded) - reinterpret_cast<const Ints&>(round) + 127;
  const Ints power = exponent << 23;
  const Floats result = p * reinterpret_cast<const Floats&>(power);
  return x < lowest ? Floats{} : result;
}

// The lanes of v with their indices exchanged in steps of `distance`, a power of 2.
template <int Distance>
inline Floats Exchanged(Floats v) {
  Ints from;
  for (int i = 0; i < kFloats; ++i) from[i] = i ^ Distance;
  return __builtin_shuffle(v, from);
}

inline Floats Larger(Floats a, Floats b) { return a > b ? a : b; }

template <int Distance = kFloats / 2>
float LargestLane(Floats v) {
  v = Larger(v, Exchanged<Distance>(v));
  if constexpr (Distance > 1) return LargestLane<Distance / 2>(v);
  return v[0];
}

template <int Distance = kFloats / 2>
float SumOfLanes(Floats v) {
  v += Exchanged<Distance>(v);
  if constexpr (Distance > 1) return SumOfLanes<Distance / 2>(v);
  return v[0];
}

float Weigh(int64_t n, float* scores, float* max) {
  const float nothing = -__builtin_inff();
  for (int64_t j = n; j % (2 * kFloats) != 0; ++j) scores[j] = nothing;
  Floats best = Floats{} + *max, other = best;
  for (int64_t j = 0; j < n; j += 2 * kFloats) {
    best = Larger(*reinterpret_cast<const Floats*>(scores + j), best);
    other = Larger(*reinterpret_cast<const Floats*>(scores + j + kFloats), other);
  }
  *max = LargestLane(Larger(best, other));
  const float base = *max == nothing ? 0.0f : *max;
  Floats sums = {};
  for (int64_t j = 0; j < n; j += kFloats) {
    Floats& s = *reinterpret_cast<Floats*>(scores + j);
    s = ExpOfNegative(s - base);
    sums += s;
  }
  return SumOfLanes(sums);
}

void Scale(int64_t n, float factor, float* row) {
  for (int64_t j = 0; j < n; j += kFloats) *reinterpret_cast<Floats*>(row + j) *= factor;
}

constexpr AttentionKernel Attention() {
  return {PREHEAT_ROWS, 2 * kFloats, &RunRows<float, PREHEAT_ROWS, 2>, &RunRows<float, PREHEAT_ROWS, 2, false>,
          &Weigh,       &Scale};
}

}  // namespace
}  // namespace preheat::library
