#ifndef PREHEAT_KERNELS_LIBRARY_MICRO_KERNEL_H_
#define PREHEAT_KERNELS_LIBRARY_MICRO_KERNEL_H_

#include <cstdint>

namespace preheat::library {

// The innermost loop of the own matrix product, compiled for each level of the CPU (micro_kernel_<level>.cc). Those
// files include nothing of the standard library: an inline function of it, compiled for AVX-512 there, could be the
// copy that the linker keeps for everybody.
//
// c[mr x nr] += a * b. `a` holds depth columns of mr values, `b` depth rows of nr values, one after another; all are
// aligned to 64 bytes and `ldc` (in elements) keeps the rows of c aligned to nr values.
template <typename T>
struct MicroKernel {
  int mr, nr;
  void (*run)(int64_t depth, const T* a, const T* b, T* c, int64_t ldc);
};

// The same for rows of `a` as they lie in memory: c[mr x nr] += a * b with a[i * lda + k]. For products that use each
// element of `a` so few times that copying it first would cost more than multiplying.
template <typename T>
struct RowKernel {
  int mr, nr;
  void (*run)(int64_t depth, const T* a, int64_t lda, const T* b, T* c, int64_t ldc);
  void (*run_one)(int64_t depth, const T* a, int64_t lda, const T* b, T* c, int64_t ldc);  // one row: mr 1
};
template <typename T>
struct RowKernels {
  RowKernel<T> narrow, wide;  // by nr
};

// The parts of attention that are worth a copy for each level of the CPU.
struct AttentionKernel {
  int mr, nr;
  // c[mr x nr] += a * b, or = a * b, for rows of `a` as they lie in memory, like RowKernel. Only so many `rows` and
  // `columns` of c are asked for; others of the mr x nr may or may not be computed.
  using Product = void (*)(int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t lda, const float* b,
                           float* c, int64_t ldc);
  Product add_product, product;
  // c[mr x nr] += a' * b for columns of `a` as they lie: element (i, k) of a' is a[k * lda + i].
  void (*add_product_of_columns)(int64_t depth, const float* a, int64_t lda, const float* b, float* c, int64_t ldc);
  // Raises *max to the largest of n scores and leaves exp(score - *max) in their places (0 everywhere while *max is
  // -inf); returns the sum. Scores lie aligned to nr floats, and up to the next multiple of nr they are overwritten.
  float (*weigh)(int64_t n, float* scores, float* max);
  // row[0..n) *= factor, up to the next multiple of nr.
  void (*scale)(int64_t n, float factor, float* row);
  // Scores become weights exp(score - log_sum), and 0 where they are -inf; products become weight * (product - dot).
  // Up to the next multiple of nr.
  void (*differentiate)(int64_t n, float log_sum, float dot, float* scores, float* products);
  // `rows` rows of `columns` floats, at most nr, `stride` apart: one after another, each filled up with zeros to nr.
  void (*pack)(int64_t rows, int64_t columns, const float* from, int64_t stride, float* to);
  // The same of the transposed: `rows`, at most nr, rows of `columns` floats as columns of nr, one after another.
  void (*pack_transposed)(int64_t rows, int64_t columns, const float* from, int64_t stride, float* to);
  // to[0..n) = from[0..n) * factor. Neither needs to be aligned.
  void (*copy)(int64_t n, const float* from, float factor, float* to);
  float (*dot)(int64_t n, const float* a, const float* b);
};

// The parts of pointwise.h: c[rows x nr] = a * b, summed in short blocks of k.
struct PointwiseKernel {
  struct Block {
    int64_t depth;
    const float* a;  // a[i * lda + k]
    int64_t lda;
    float* b;           // depth rows of nr values, aligned to 64 bytes
    const float* from;  // of kCopying: rows of b as they lie, `ldf` from one to the next
    int64_t ldf;
    float* c;  // need not be aligned
    int64_t ldc;
  };
  using Run = void (*)(const Block& block);
  // Half: c has nr / 2 columns, and up to 2 * mr rows, which keep the units as busy. Copying: b is read at `from`, and
  // left in `b` for the rows to come.
  enum Variant { kHalf, kWhole, kCopying, kVariants };
  static constexpr int kMaxRows = 12, kMaxColumns = 32;

  int mr, nr;
  Run run[kMaxRows][kVariants];  // by rows - 1
  // The same nearer to the exact result, in 1% to 3% more time.
  Run run_nearer[kMaxRows][kVariants];
  // Rows of b that lie in two pieces, the first with `size` values. Reads nr values at each, writes nr after the end.
  void (*copy_two)(int64_t depth, const float* first, int64_t size, const float* second, int64_t ldf, float* to);
  // Rows of b whose values lie at `offsets`; those of the next panel lie about `ahead` from them.
  void (*gather)(int64_t depth, const float* from, int64_t ldf, const int64_t* offsets, int64_t ahead, float* to);
  // `rows` rows of n values, at most nr.
  void (*copy)(int64_t rows, int64_t n, const float* from, int64_t ldf, float* to, int64_t ldt);
  // to[c * ldt + r] = from[r * ldf + c]
  void (*transpose)(int64_t rows, int64_t columns, const float* from, int64_t ldf, float* to, int64_t ldt);
};

// The parts of pointwise_grad.h: products of rows, which both lie as they are in memory.
struct PointwiseGradKernel {
  struct Block {
    int64_t images, positions;  // so many positions of each image
    const float* a;             // a[image * a_image + i * lda + position]
    int64_t a_image, lda;
    const float* b;  // b[image * b_image + j * ldb + position]
    int64_t b_image, ldb;
    const float *ahead, *ahead_too;  // rows of a that are needed soon
    double* totals;                  // totals[i * columns + j]
  };
  // Adds to the totals (or sets them to) the sums over all positions of a * b. Where positions are no multiple of
  // kAtOnce, up to so many are read before the last one, even before the block's first.
  using Sum = void (*)(const Block& block, bool sets);
  // c[i * row + j * column] = the sum of `groups` totals, `stride` from one to the next.
  using Finish = void (*)(int64_t groups, const double* totals, int64_t stride, float* c, int64_t row, int64_t column);
  static constexpr int kAtOnce = 16, kMaxRows = 6, kMaxColumns = 4, kTotals = kMaxRows * kMaxColumns;

  int mr, nr;
  Sum sum[kMaxRows][kMaxColumns];  // by rows - 1, columns - 1
  Finish finish[kMaxRows][kMaxColumns];
};

// The parts of nine_pixels.h.
struct NinePixelKernel {
  struct Block {
    int64_t channels;
    const float* a;  // filters: a[i * lda + channel * 9 + tap]
    int64_t lda;
    const float* b;  // b[channel * `channel` + line[y] + x * shift + position] for tap (y, x)
    int64_t channel, shift;
    int64_t line[3];
    float* c;  // need not be aligned
    int64_t ldc;
    bool adds;  // to c
  };
  using Run = void (*)(const Block& block);
  // Lines of some channels as the columns of windows see them: for i in [0, size)
  //   to[channel * 3 * shift + x * shift + above + line * ldt + i] = from[channel * ldc + line * ldf + i * stride + x],
  // for x of 0 and 2 zero where masks[x / 2 * ldm + i] is 0 and not -1. The first `above` places are zeros, so are
  // those `below` from `above + inside` on. Up to the next whole vector values are read, and written after the end.
  struct Lines {
    int64_t channels, count, size, above, inside, below;
    const float* from;
    int64_t ldc, ldf;
    const int32_t* masks;  // aligned, as ldm is
    int64_t ldm;
    float* to;
    int64_t ldt, shift;
  };
  using Spread = void (*)(const Lines& lines);
  static constexpr int kMaxRows = 12, kMaxVectors = 3, kMaxLanes = 16, kMaxStride = 2;

  int lanes, narrow_lanes;
  int mr[kMaxVectors];             // the most rows of c, by vectors of positions - 1
  Run run[kMaxRows][kMaxVectors];  // by rows - 1, vectors - 1
  Spread spread[kMaxStride][2];    // by stride - 1; in narrow vectors or in whole ones
};

struct MicroKernels {
  MicroKernel<float> f32;
  MicroKernel<double> f64;
  MicroKernel<uint32_t> u32;  // integers wrap, so signs do not matter
  MicroKernel<uint64_t> u64;
  RowKernels<float> rows_f32;
  RowKernels<double> rows_f64;
  AttentionKernel attention;
  PointwiseKernel pointwise;
  PointwiseGradKernel pointwise_grad;
  NinePixelKernel nine_pixels;
};

extern const MicroKernels kMicroKernelsV2;
extern const MicroKernels kMicroKernelsV3;
extern const MicroKernels kMicroKernelsV4;

// The best for this CPU.
const MicroKernels& HostMicroKernels();

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_MICRO_KERNEL_H_
