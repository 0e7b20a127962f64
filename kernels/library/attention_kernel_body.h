// The rows of attention, in the terms of micro_kernel_body.h, which micro_kernel_<level>.cc includes first.

namespace preheat::library {
namespace {

typedef float Floats __attribute__((vector_size(PREHEAT_VECTOR_BYTES), may_alias));
typedef float AnyFloats __attribute__((vector_size(PREHEAT_VECTOR_BYTES), may_alias, aligned(4)));
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
  Ints lane;
  for (int i = 0; i < kFloats; ++i) lane[i] = i;
  for (int64_t j = n / kFloats * kFloats; j < n || j % (2 * kFloats) != 0; j += kFloats) {
    Floats& s = *reinterpret_cast<Floats*>(scores + j);  // whole, as they were stored: parts would have to wait
    s = lane < Ints{} + static_cast<int32_t>(n - j) ? s : Floats{} + nothing;
  }
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

// Of panels of two vectors of columns, as many as are needed.
template <int Rows, bool Adds>
void RunColumnsOf(int64_t columns, int64_t depth, const float* a, int64_t lda, const float* b, float* c, int64_t ldc) {
  if (columns > kFloats) return RunRows<float, Rows, 2, Adds>(depth, a, lda, b, c, ldc);
  RunRows<float, Rows, 1, Adds, 2>(depth, a, lda, b, c, ldc);
}

template <bool Adds>
void Product(int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t lda, const float* b, float* c,
             int64_t ldc) {
  constexpr int kAll = PREHEAT_ROWS, kMost = PREHEAT_ROWS * 2 / 3, kFew = PREHEAT_ROWS / 3;
  if (rows > kMost) return RunColumnsOf<kAll, Adds>(columns, depth, a, lda, b, c, ldc);
  if (rows > kFew) return RunColumnsOf<kMost, Adds>(columns, depth, a, lda, b, c, ldc);
  RunColumnsOf<kFew, Adds>(columns, depth, a, lda, b, c, ldc);
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

Floats Load(const float* from) { return *reinterpret_cast<const AnyFloats*>(from); }

void Copy(int64_t n, const float* from, float factor, float* to) {
  int64_t j = 0;
  for (; j + kFloats <= n; j += kFloats) *reinterpret_cast<AnyFloats*>(to + j) = Load(from + j) * factor;
  for (; j < n; ++j) to[j] = from[j] * factor;
}

float Dot(int64_t n, const float* a, const float* b) {
  Floats sums = {};
  int64_t j = 0;
  for (; j + kFloats <= n; j += kFloats) sums += Load(a + j) * Load(b + j);
  float rest = 0;
  for (; j < n; ++j) rest += a[j] * b[j];
  return SumOfLanes(sums) + rest;
}

void Pack(int64_t rows, int64_t columns, const float* from, int64_t stride, float* to) {
  constexpr int kWidth = 2 * kFloats;
  for (int64_t i = 0; i < rows; ++i, from += stride, to += kWidth) {
    if (columns == kWidth) {
      *reinterpret_cast<Floats*>(to) = Load(from);
      *reinterpret_cast<Floats*>(to + kFloats) = Load(from + kFloats);
      continue;
    }
    for (int64_t c = 0; c < columns; ++c) to[c] = from[c];
    for (int64_t c = columns; c < kWidth; ++c) to[c] = 0;
  }
}

// Lanes of a, or of b by numbers from kFloats on.
inline Floats Picked(Floats a, Floats b, Ints from) {
#ifdef __clang__
  Floats picked;
  for (int i = 0; i < kFloats; ++i) picked[i] = from[i] < kFloats ? a[from[i]] : b[from[i] - kFloats];
  return picked;
#else
  return __builtin_shuffle(a, b, from);
#endif
}

// Transposes blocks of 2 * Distance by 2 * Distance of what is transposed in blocks of Distance, and so on.
template <int Distance = 1>
inline void Transpose(Floats (&block)[kFloats]) {
  Ints low, high;
  for (int i = 0; i < kFloats; ++i) {
    const bool second = (i & Distance) != 0;
    low[i] = second ? kFloats + (i ^ Distance) : i;
    high[i] = second ? kFloats + i : i | Distance;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kFloats; ++i) {
    if ((i & Distance) != 0) continue;
    const Floats a = block[i], b = block[i | Distance];
    block[i] = Picked(a, b, low);
    block[i | Distance] = Picked(a, b, high);
  }
  if constexpr (2 * Distance < kFloats) Transpose<2 * Distance>(block);
}

void PackTransposed(int64_t rows, int64_t columns, const float* from, int64_t stride, float* to) {
  constexpr int kWidth = 2 * kFloats;
  for (int c = 0; c < kWidth; c += kFloats) {
    int64_t k = 0;
    for (; k + kFloats <= columns; k += kFloats) {
      Floats block[kFloats];
#pragma GCC unroll 16
      for (int i = 0; i < kFloats; ++i) block[i] = c + i < rows ? Load(from + (c + i) * stride + k) : Floats{};
      Transpose(block);
#pragma GCC unroll 16
      for (int i = 0; i < kFloats; ++i) *reinterpret_cast<Floats*>(to + (k + i) * kWidth + c) = block[i];
    }
    for (; k < columns; ++k) {
      for (int i = c; i < c + kFloats; ++i) to[k * kWidth + i] = i < rows ? from[i * stride + k] : 0;
    }
  }
}

constexpr AttentionKernel Attention() {
  return {PREHEAT_ROWS, 2 * kFloats, &Product<true>, &Product<false>, &RunColumns<PREHEAT_ROWS, 2>,
          &Weigh,       &Scale,      &Differentiate, &Pack,           &PackTransposed,
          &Copy,        &Dot};
}

}  // namespace
}  // namespace preheat::library
