// The rows of attention, in the terms of micro_kernel_body.h, which micro_kernel_<level>.cc includes first.

namespace preheat::library {
namespace {

typedef float Floats __attribute__((vector_size(PREHEAT_VECTOR_BYTES), may_alias));
typedef int32_t Ints __attribute__((vector_size(PREHEAT_VECTOR_BYTES), may_alias));
constexpr int kFloats = PREHEAT_VECTOR_BYTES / static_cast<int>(sizeof(float));

// exp(x) within 2 ulp; what is under 2^-125 is 0; NaN stays. x = n ln 2 + r with |r| <= ln 2 / 2, and exp(r) by its
// series to r^7, whose rest is under 6e-9 there (Cody and Waite's reduction).
inline Floats Exp(Floats x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const Floats lowest = Floats{} - 86.6f, highest = Floats{} + 88.73f;
  Floats bounded = x < lowest ? lowest : x;
  bounded = bounded > highest ? highest : bounded;
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
  const Ints exponent = reinterpret_cast<const Ints&>(rounded) - reinterpret_cast<const Ints&>(round) + 126;
  const Ints power = exponent << 23;
  const Floats result = p * reinterpret_cast<const Floats&>(power) * 2.0f;  // in two steps: 2^128 has no float
  return x < lowest ? Floats{} : result;
}

// The lanes of v with their indices exchanged in steps of `distance`, a power of 2.
template <int Distance>
inline Floats Exchanged(Floats v) {
#ifdef __clang__  // the fuzzers' compiler has no such shuffle
  Floats exchanged;
  for (int i = 0; i < kFloats; ++i) exchanged[i] = v[i ^ Distance];
  return exchanged;
#else
  Ints from;
  for (int i = 0; i < kFloats; ++i) from[i] = i ^ Distance;
  return __builtin_shuffle(v, from);
#endif
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
    s = Exp(s - base);
    sums += s;
  }
  return SumOfLanes(sums);
}

void Scale(int64_t n, float factor, float* row) {
  for (int64_t j = 0; j < n; j += kFloats) *reinterpret_cast<Floats*>(row + j) *= factor;
}

void Differentiate(int64_t n, float log_sum, float dot, float* scores, float* products) {
  const Floats hidden = Floats{} - __builtin_inff();
  for (int64_t j = 0; j < n; j += kFloats) {
    Floats &score = *reinterpret_cast<Floats*>(scores + j), &product = *reinterpret_cast<Floats*>(products + j);
    score = score == hidden ? Floats{} : Exp(score - log_sum);
    product = score * (product - dot);
  }
}

// Columns of `a` as they lie: c[Rows x nr] += a' * b with a[k * lda + i].
template <int Rows, int Vectors>
void RunColumns(int64_t depth, const float* a, int64_t lda, const float* b, float* c, int64_t ldc) {
  Floats sums[Rows][Vectors] = {};
  for (int64_t k = 0; k < depth; ++k, a += lda, b += Vectors * kFloats) {
    Floats right[Vectors];
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) right[j] = *reinterpret_cast<const Floats*>(b + j * kFloats);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j) sums[i][j] += a[i] * right[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) *reinterpret_cast<Floats*>(c + i * ldc + j * kFloats) += sums[i][j];
  }
}

constexpr AttentionKernel Attention() {
  return {PREHEAT_ROWS,
          2 * kFloats,
          &RunRows<float, PREHEAT_ROWS, 2>,
          &RunRows<float, PREHEAT_ROWS, 2, false>,
          &RunColumns<PREHEAT_ROWS, 2>,
          &Weigh,
          &Scale,
          &Differentiate};
}

}  // namespace
}  // namespace preheat::library
