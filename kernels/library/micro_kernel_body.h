// The body of micro_kernel_<level>.cc, which sets PREHEAT_VECTOR_BYTES and PREHEAT_ROWS. No include guard is needed:
// each file includes it once, and everything is local to that file.
#include "kernels/library/micro_kernel.h"

namespace preheat::library {
namespace {

template <typename T, int Rows, int Vectors>
void Run(int64_t depth, const T* a, const T* b, T* c, int64_t ldc) {
  typedef T Vector __attribute__((vector_size(PREHEAT_VECTOR_BYTES), may_alias));
  constexpr int kLanes = PREHEAT_VECTOR_BYTES / sizeof(T);
  Vector sums[Rows][Vectors] = {};
  for (int64_t k = 0; k < depth; ++k, a += Rows, b += Vectors * kLanes) {
    Vector right[Vectors];
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) right[j] = *reinterpret_cast<const Vector*>(b + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j) sums[i][j] += a[i] * right[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) *reinterpret_cast<Vector*>(c + i * ldc + j * kLanes) += sums[i][j];
  }
}

// `Panel`: vectors from one row of b to the next, of which the first are used.
template <typename T, int Rows, int Vectors, bool Adds = true, int Panel = Vectors>
void RunRows(int64_t depth, const T* a, int64_t lda, const T* b, T* c, int64_t ldc) {
  typedef T Vector __attribute__((vector_size(PREHEAT_VECTOR_BYTES), may_alias));
  constexpr int kLanes = PREHEAT_VECTOR_BYTES / sizeof(T);
  Vector sums[Rows][Vectors] = {};
  for (int64_t k = 0; k < depth; ++k, b += Panel * kLanes) {
    Vector right[Vectors];
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) right[j] = *reinterpret_cast<const Vector*>(b + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j) sums[i][j] += a[i * lda + k] * right[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) {
      Vector& to = *reinterpret_cast<Vector*>(c + i * ldc + j * kLanes);
      to = Adds ? to + sums[i][j] : sums[i][j];
    }
  }
}

// Eight sums at a time keep two multiply-add units with a latency of four cycles busy.
template <typename T>
constexpr RowKernels<T> OfRows() {
  constexpr int kLanes = PREHEAT_VECTOR_BYTES / static_cast<int>(sizeof(T));
  return {{8, kLanes, &RunRows<T, 8, 1>, &RunRows<T, 1, 1>}, {4, 2 * kLanes, &RunRows<T, 4, 2>, &RunRows<T, 1, 2>}};
}

template <typename T>
constexpr MicroKernel<T> Kernel() {
  return {PREHEAT_ROWS, 2 * PREHEAT_VECTOR_BYTES / static_cast<int>(sizeof(T)), &Run<T, PREHEAT_ROWS, 2>};
}

}  // namespace
}  // namespace preheat::library
