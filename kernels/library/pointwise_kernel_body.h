// A part of micro_kernel_<level>.cc: the product of pointwise.h. Included after micro_kernel_body.h, by each level
// once.
#include "kernels/library/micro_kernel.h"

namespace preheat::library {
namespace {

constexpr int kPointwiseLanes = PREHEAT_VECTOR_BYTES / sizeof(float);
typedef float PointwiseVector __attribute__((vector_size(PREHEAT_VECTOR_BYTES), may_alias));
typedef float UnalignedVector __attribute__((vector_size(PREHEAT_VECTOR_BYTES), may_alias, aligned(4)));

// The next panel's results: each row is a stream of its own, too many for the hardware to follow.
template <int Rows>
inline void AskForNextPanel(const PointwiseKernel::Block& block) {
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) __builtin_prefetch(block.c + i * block.ldc + (2 + j) * kPointwiseLanes, 1);
  }
}

// With n products in sums of s, the error grows with the root of (s + n / s) / 2, in one sum with the root of n / 2.
constexpr int64_t SizeOfSums(int64_t products) { return products > 512 ? 32 : 16; }

template <int Rows, int Vectors, bool Copies>
void MultiplyPointwise(const PointwiseKernel::Block& block) {
  const float* a = block.a;
  const float* from = block.from;
  float* b = block.b;
  const int64_t lda = block.lda, depth = block.depth, ldf = block.ldf, size = SizeOfSums(depth);
  AskForNextPanel<Rows>(block);
  PointwiseVector totals[Rows][Vectors] = {};
  for (int64_t k = 0; k < depth;) {
    const int64_t end = k + size < depth ? k + size : depth;
    PointwiseVector sums[Rows][Vectors] = {};
#pragma GCC unroll 2
    for (; k < end; ++k, b += 2 * kPointwiseLanes) {
      PointwiseVector right[Vectors];
#pragma GCC unroll 2
      for (int j = 0; j < Vectors; ++j) {
        PointwiseVector* panel = reinterpret_cast<PointwiseVector*>(b + j * kPointwiseLanes);
        if (Copies) {
          *panel = right[j] = *reinterpret_cast<const UnalignedVector*>(from + j * kPointwiseLanes);
          __builtin_prefetch(from + (2 + j) * kPointwiseLanes);
        } else {
          right[j] = *panel;
        }
      }
      if (Copies) from += ldf;
#pragma GCC unroll 16
      for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < Vectors; ++j) sums[i][j] += a[i * lda + k] * right[j];
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < Vectors; ++j) totals[i][j] += sums[i][j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j) {
      *reinterpret_cast<UnalignedVector*>(block.c + i * block.ldc + j * kPointwiseLanes) = totals[i][j];
    }
  }
}

// Adds to the totals what some rows of b come to.
template <int Rows, int Vectors, bool Copies>
inline __attribute__((always_inline)) void AddSum(int64_t products, const float* a, int64_t lda, const float* from,
                                                  int64_t ldf, float* b, PointwiseVector (&totals)[Rows][Vectors]) {
  PointwiseVector sums[Rows][Vectors] = {};
#pragma GCC unroll 8
  for (int64_t k = 0; k < products; ++k, b += 2 * kPointwiseLanes) {
    PointwiseVector right[Vectors];
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j) {
      PointwiseVector* panel = reinterpret_cast<PointwiseVector*>(b + j * kPointwiseLanes);
      if (Copies) {
        *panel = right[j] = *reinterpret_cast<const UnalignedVector*>(from + j * kPointwiseLanes);
        __builtin_prefetch(from + (2 + j) * kPointwiseLanes);
      } else {
        right[j] = *panel;
      }
    }
    if (Copies) from += ldf;
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < Vectors; ++j) sums[i][j] += a[i * lda + k] * right[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j) totals[i][j] += sums[i][j];
  }
}

// In sums of s, totals of t of these, and those added in c: the root of (s + t + n / (s * t)) / 2.
template <int Rows, int Vectors, bool Copies>
void MultiplyInTotals(const PointwiseKernel::Block& block) {
  AskForNextPanel<Rows>(block);
  constexpr int64_t kSum = 16, kManyProducts = 512;
  const float *a = block.a, *from = block.from;
  float* b = block.b;
  const int64_t lda = block.lda, depth = block.depth, ldf = block.ldf;
  const int64_t total = depth > kManyProducts ? 8 * kSum : 6 * kSum;
  for (int64_t k = 0; k < depth;) {
    const bool adds = k > 0;
    PointwiseVector totals[Rows][Vectors] = {};
    const int64_t end = k + total < depth ? k + total : depth;
    for (; k + kSum <= end; k += kSum, a += kSum, b += kSum * 2 * kPointwiseLanes) {
      AddSum<Rows, Vectors, Copies>(kSum, a, lda, from, ldf, b, totals);
      if (Copies) from += kSum * ldf;
    }
    if (k < end) AddSum<Rows, Vectors, Copies>(end - k, a, lda, from, ldf, b, totals);
    k = end;
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < Vectors; ++j) {
        UnalignedVector& to = *reinterpret_cast<UnalignedVector*>(block.c + i * block.ldc + j * kPointwiseLanes);
        to = adds ? to + totals[i][j] : totals[i][j];
      }
    }
  }
}

void CopyTwoPieces(int64_t depth, const float* first, int64_t size, const float* second, int64_t ldf, float* to) {
  for (int64_t k = 0; k < depth; ++k, first += ldf, second += ldf, to += 2 * kPointwiseLanes) {
    for (int j = 0; j < 2 * kPointwiseLanes; j += kPointwiseLanes) {
      *reinterpret_cast<PointwiseVector*>(to + j) = *reinterpret_cast<const UnalignedVector*>(first + j);
    }
    for (int j = 0; j < 2 * kPointwiseLanes; j += kPointwiseLanes) {
      *reinterpret_cast<UnalignedVector*>(to + size + j) = *reinterpret_cast<const UnalignedVector*>(second + j);
    }
  }
}

void GatherRows(int64_t depth, const float* from, int64_t ldf, const int64_t* offsets, int64_t ahead, float* to) {
  for (int64_t k = 0; k < depth; ++k, from += ldf, to += 2 * kPointwiseLanes) {
    for (int j = 0; j < 2 * kPointwiseLanes; j += 4) __builtin_prefetch(from + offsets[j] + ahead);
    for (int j = 0; j < 2 * kPointwiseLanes; ++j) to[j] = from[offsets[j]];
  }
}

// The first and the last `Lanes` values of every row, which overlap.
template <int Lanes>
void CopyEnds(int64_t rows, int64_t n, const float* from, int64_t ldf, float* to, int64_t ldt) {
  typedef float Vector __attribute__((vector_size(Lanes * sizeof(float)), may_alias, aligned(4)));
  for (; rows > 0; --rows, from += ldf, to += ldt) {
    const Vector first = *reinterpret_cast<const Vector*>(from);
    *reinterpret_cast<Vector*>(to + n - Lanes) = *reinterpret_cast<const Vector*>(from + n - Lanes);
    *reinterpret_cast<Vector*>(to) = first;
  }
}

// Each row in as few moves as its size allows.
void CopyBlock(int64_t rows, int64_t n, const float* from, int64_t ldf, float* to, int64_t ldt) {
  for (; n > 2 * kPointwiseLanes; n -= kPointwiseLanes, from += kPointwiseLanes, to += kPointwiseLanes) {
    CopyEnds<kPointwiseLanes>(rows, kPointwiseLanes, from, ldf, to, ldt);
  }
  if (n >= kPointwiseLanes) return CopyEnds<kPointwiseLanes>(rows, n, from, ldf, to, ldt);
  if (n >= 8) return CopyEnds<8>(rows, n, from, ldf, to, ldt);
  if (n >= 4) return CopyEnds<4>(rows, n, from, ldf, to, ldt);
  if (n >= 2) return CopyEnds<2>(rows, n, from, ldf, to, ldt);
  for (; n > 0 && rows > 0; --rows, from += ldf, to += ldt) *to = *from;
}

// to[c * ldt + r] = from[r * ldf + c]
void TransposeMatrix(int64_t rows, int64_t columns, const float* from, int64_t ldf, float* to, int64_t ldt) {
  const int64_t whole_rows = rows / kFloats * kFloats, whole_columns = columns / kFloats * kFloats;
  for (int64_t r = 0; r < whole_rows; r += kFloats) {
    for (int64_t c = 0; c < whole_columns; c += kFloats) {
      Floats block[kFloats];
#pragma GCC unroll 16
      for (int i = 0; i < kFloats; ++i) block[i] = Load(from + (r + i) * ldf + c);
      Transpose(block);
#pragma GCC unroll 16
      for (int i = 0; i < kFloats; ++i) *reinterpret_cast<UnalignedVector*>(to + (c + i) * ldt + r) = block[i];
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) to[c * ldt + r] = from[r * ldf + c];
  }
}

template <int Rows>
constexpr void FillPointwise(PointwiseKernel& kernel) {
  PointwiseKernel::Run *const run = kernel.run[Rows - 1], *const nearer = kernel.run_nearer[Rows - 1];
  run[PointwiseKernel::kHalf] = &MultiplyPointwise<Rows, 1, false>;
  nearer[PointwiseKernel::kHalf] = &MultiplyInTotals<Rows, 1, false>;
  if constexpr (Rows <= PREHEAT_POINTWISE_ROWS) {
    run[PointwiseKernel::kWhole] = &MultiplyPointwise<Rows, 2, false>;
    run[PointwiseKernel::kCopying] = &MultiplyPointwise<Rows, 2, true>;
    nearer[PointwiseKernel::kWhole] = &MultiplyInTotals<Rows, 2, false>;
    nearer[PointwiseKernel::kCopying] = &MultiplyInTotals<Rows, 2, true>;
  }
  if constexpr (Rows > 1) FillPointwise<Rows - 1>(kernel);
}

constexpr PointwiseKernel Pointwise() {
  PointwiseKernel kernel{PREHEAT_POINTWISE_ROWS, 2 * kPointwiseLanes, {},         {},
                         &CopyTwoPieces,         &GatherRows,         &CopyBlock, &TransposeMatrix};
  FillPointwise<2 * PREHEAT_POINTWISE_ROWS>(kernel);
  static_assert(2 * PREHEAT_POINTWISE_ROWS <= PointwiseKernel::kMaxRows);
  static_assert(2 * kPointwiseLanes <= PointwiseKernel::kMaxColumns);
  return kernel;
}

}  // namespace
}  // namespace preheat::library
