// A part of micro_kernel_<level>.cc: the products of pointwise_grad.h. Included after attention_kernel_body.h, by each
// level once.
#include "kernels/library/micro_kernel.h"

namespace preheat::library {
namespace {

// Lane l: the sum of lanes l and l ^ Distance, of b where l has `Distance` in it, else of a.
template <int Distance>
inline Floats SumOfPairs(Floats a, Floats b) {
  Floats same, other;
#ifdef __clang__  // as Exchanged
  for (int i = 0; i < kFloats; ++i) same[i] = (i & Distance) == 0 ? a[i] : b[i];
  for (int i = 0; i < kFloats; ++i) other[i] = (i & Distance) == 0 ? a[i ^ Distance] : b[i ^ Distance];
#else
  Ints from, across;
  for (int i = 0; i < kFloats; ++i) from[i] = (i & Distance) == 0 ? i : i + kFloats;
  for (int i = 0; i < kFloats; ++i) across[i] = from[i] ^ Distance;
  same = __builtin_shuffle(a, b, from);
  other = __builtin_shuffle(a, b, across);
#endif
  return same + other;
}

// Sums the lanes of each of `Count` vectors: those of vector i become sums[i / kFloats][i % kFloats].
template <int Count, int Distance = 1>
inline void SumLanes(Floats* sums) {
#pragma GCC unroll 16
  for (int i = 0; i < Count / 2; ++i) sums[i] = SumOfPairs<Distance>(sums[2 * i], sums[2 * i + 1]);
  if constexpr (Count % 2 == 1) sums[Count / 2] = SumOfPairs<Distance>(sums[Count - 1], sums[Count - 1]);
  if constexpr (2 * Distance < kFloats) SumLanes<(Count + 1) / 2, 2 * Distance>(sums);
}

inline Floats Masked(Floats v, Ints mask) {
  const Ints bits = reinterpret_cast<const Ints&>(v) & mask;
  return reinterpret_cast<const Floats&>(bits);
}

// One vector of every row. Both sides are masked: an infinity that was read before must not meet a zero.
template <int Rows, int Columns, bool Masks>
inline void AddProducts(const float* const* a, const float* const* b, int64_t p, Ints mask, Floats* sums) {
  Floats right[Columns];
#pragma GCC unroll 8
  for (int j = 0; j < Columns; ++j) right[j] = Masks ? Masked(Load(b[j] + p), mask) : Load(b[j] + p);
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
    const Floats left = Masks ? Masked(Load(a[i] + p), mask) : Load(a[i] + p);
#pragma GCC unroll 8
    for (int j = 0; j < Columns; ++j) sums[i * Columns + j] += left * right[j];
  }
}

template <int Count>
inline void AddToTotals(Floats* sums, double* totals, bool sets) {
  constexpr int kVectors = (Count + kFloats - 1) / kFloats;
  SumLanes<Count>(sums);
  float values[kVectors * kFloats] __attribute__((aligned(64)));
#pragma GCC unroll 8
  for (int i = 0; i < kVectors; ++i) *reinterpret_cast<Floats*>(values + i * kFloats) = sums[i];
  if (sets) {
    for (int i = 0; i < Count; ++i) totals[i] = values[i];
  } else {
    for (int i = 0; i < Count; ++i) totals[i] += values[i];
  }
}

template <int Rows, int Columns>
void SumProducts(const PointwiseGradKernel::Block& block, bool sets) {
  Floats sums[Rows * Columns] = {};
  const int64_t positions = block.positions, whole = positions / kFloats * kFloats;
  Ints rest;
  for (int l = 0; l < kFloats; ++l) rest[l] = l >= kFloats - (positions - whole) ? -1 : 0;
  for (int64_t image = 0; image < block.images; ++image) {
    const float *a[Rows], *b[Columns];
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) a[i] = block.a + image * block.a_image + i * block.lda;
#pragma GCC unroll 8
    for (int j = 0; j < Columns; ++j) b[j] = block.b + image * block.b_image + j * block.ldb;
    const float *ahead = block.ahead + image * block.a_image, *ahead_too = block.ahead_too + image * block.a_image;
    for (int64_t p = 0; p < whole; p += kFloats) {
      __builtin_prefetch(ahead + p);
      __builtin_prefetch(ahead_too + p);
      AddProducts<Rows, Columns, false>(a, b, p, rest, sums);
    }
    if (whole < positions) AddProducts<Rows, Columns, true>(a, b, positions - kFloats, rest, sums);
  }
  AddToTotals<Rows * Columns>(sums, block.totals, sets);
}

template <int Rows, int Columns>
void FinishProducts(int64_t groups, const double* totals, int64_t stride, float* c, int64_t row, int64_t column) {
  double sums[Rows * Columns];
  for (int i = 0; i < Rows * Columns; ++i) sums[i] = totals[i];
  for (int64_t group = 1; group < groups; ++group) {
    totals += stride;
    for (int i = 0; i < Rows * Columns; ++i) sums[i] += totals[i];
  }
  float values[Rows * Columns];
  for (int i = 0; i < Rows * Columns; ++i) values[i] = static_cast<float>(sums[i]);
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < Columns; ++j) c[i * row + j * column] = values[i * Columns + j];
  }
}

template <int Rows, int Columns>
constexpr void FillPointwiseGrad(PointwiseGradKernel& kernel) {
  kernel.sum[Rows - 1][Columns - 1] = &SumProducts<Rows, Columns>;
  kernel.finish[Rows - 1][Columns - 1] = &FinishProducts<Rows, Columns>;
  if constexpr (Columns > 1) FillPointwiseGrad<Rows, Columns - 1>(kernel);
  if constexpr (Columns == 1 && Rows > 1) FillPointwiseGrad<Rows - 1, PREHEAT_GRAD_COLUMNS>(kernel);
}

constexpr PointwiseGradKernel PointwiseGrad() {
  PointwiseGradKernel kernel{PREHEAT_GRAD_ROWS, PREHEAT_GRAD_COLUMNS, {}, {}};
  FillPointwiseGrad<PREHEAT_GRAD_ROWS, PREHEAT_GRAD_COLUMNS>(kernel);
  static_assert(PREHEAT_GRAD_ROWS <= PointwiseGradKernel::kMaxRows);
  static_assert(PREHEAT_GRAD_COLUMNS <= PointwiseGradKernel::kMaxColumns);
  static_assert(kFloats <= PointwiseGradKernel::kAtOnce);
  return kernel;
}

}  // namespace
}  // namespace preheat::library
