// A part of micro_kernel_<level>.cc: the product of nine_pixels.h. Included after pointwise_kernel_body.h, whose
// vectors it uses, by each level once.
#include "kernels/library/micro_kernel.h"

namespace preheat::library {
namespace {

template <int Rows, int Vectors>
void MultiplyNine(const NinePixelKernel::Block& block) {
  const float *a = block.a, *first = block.b + block.line[0], *second = block.b + block.line[1],
              *third = block.b + block.line[2];
  int64_t lda = block.lda, shift = block.shift;
  PointwiseVector totals[Rows][Vectors] = {};
  for (int64_t k = 0; k < block.channels; ++k) {
    // Addresses are to be computed here: kept from one channel to the next, they would take more registers than there
    // are.
    asm("" : "+r"(lda), "+r"(shift));
    PointwiseVector sums[Rows][Vectors];
#pragma GCC unroll 9
    for (int tap = 0; tap < 9; ++tap) {
      const float* from = (tap < 3 ? first : tap < 6 ? second : third) + tap % 3 * shift;
      PointwiseVector right[Vectors];
#pragma GCC unroll 3
      for (int j = 0; j < Vectors; ++j)
        right[j] = *reinterpret_cast<const UnalignedVector*>(from + j * kPointwiseLanes);
#pragma GCC unroll 12
      for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 3
        for (int j = 0; j < Vectors; ++j) {
          const PointwiseVector product = a[i * lda + tap] * right[j];
          sums[i][j] = tap == 0 ? product : sums[i][j] + product;
        }
      }
    }
#pragma GCC unroll 12
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < Vectors; ++j) totals[i][j] += sums[i][j];
    }
    a += 9, first += block.channel, second += block.channel, third += block.channel;
  }
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < Vectors; ++j) {
      UnalignedVector& to = *reinterpret_cast<UnalignedVector*>(block.c + i * block.ldc + j * kPointwiseLanes);
      to = block.adds ? to + totals[i][j] : totals[i][j];
    }
  }
}

struct WholeVectors {
  static constexpr int kLanes = kPointwiseLanes;
  using Floats = PointwiseVector;
  using Unaligned = UnalignedVector;
  using Integers = Ints;
};

// For lines of few windows: whole vectors would lie across the ends of cache lines.
struct NarrowVectors {
  static constexpr int kLanes = kPointwiseLanes < 8 ? kPointwiseLanes : 8;
  typedef float Floats __attribute__((vector_size(kLanes * sizeof(float)), may_alias));
  typedef float Unaligned __attribute__((vector_size(kLanes * sizeof(float)), may_alias, aligned(4)));
  typedef int32_t Integers __attribute__((vector_size(kLanes * sizeof(float)), may_alias));
};

template <typename Vectors>
inline typename Vectors::Floats LoadVector(const float* from) {
  return *reinterpret_cast<const typename Vectors::Unaligned*>(from);
}

// Every other value.
template <typename Vectors>
inline typename Vectors::Floats LoadApart(const float* from) {
  constexpr int kLanes = Vectors::kLanes;
  const auto low = LoadVector<Vectors>(from), high = LoadVector<Vectors>(from + kLanes);
#ifdef __clang__  // the fuzzers' compiler has no such shuffle
  typename Vectors::Floats even;
  for (int i = 0; i < kLanes; ++i) even[i] = 2 * i < kLanes ? low[2 * i] : high[2 * i - kLanes];
  return even;
#else
  typename Vectors::Integers even;
  for (int i = 0; i < kLanes; ++i) even[i] = 2 * i;
  return __builtin_shuffle(low, high, even);
#endif
}

template <typename Vectors>
inline void ClearPlaces(float* to, int64_t size, int64_t shift) {
  typename Vectors::Floats zeros{};
  asm("" : "+x"(zeros));  // else this becomes calls of memset, for a few vectors
  for (int64_t i = 0; i < size; i += Vectors::kLanes) {
#pragma GCC unroll 3
    for (int x = 0; x < 3; ++x) *reinterpret_cast<typename Vectors::Unaligned*>(to + x * shift + i) = zeros;
  }
}

template <int Stride, typename Vectors>
inline void SpreadLine(const NinePixelKernel::Lines& lines, const float* from, float* to) {
  using Integers = typename Vectors::Integers;
  for (int64_t i = 0; i < lines.size; i += Vectors::kLanes) {
#pragma GCC unroll 3
    for (int x = 0; x < 3; ++x) {
      const float* at = from + i * Stride + x;
      auto values = Stride == 1 ? LoadVector<Vectors>(at) : LoadApart<Vectors>(at);
      if (x != 1) {
        const Integers mask = *reinterpret_cast<const Integers*>(lines.masks + x / 2 * lines.ldm + i);
        values = reinterpret_cast<typename Vectors::Floats>(reinterpret_cast<Integers>(values) & mask);
      }
      *reinterpret_cast<typename Vectors::Unaligned*>(to + x * lines.shift + i) = values;
    }
  }
}

// In this order: what is written after a line's end is overwritten by the next one.
template <int Stride, typename Vectors>
void SpreadLines(const NinePixelKernel::Lines& given) {
  const NinePixelKernel::Lines lines = given;
  for (int64_t k = 0; k < lines.channels; ++k) {
    const float* from = lines.from + k * lines.ldc;
    float* to = lines.to + k * 3 * lines.shift;
    ClearPlaces<Vectors>(to, lines.above, lines.shift);
    to += lines.above;
    for (int64_t line = 0; line < lines.count; ++line) {
      SpreadLine<Stride, Vectors>(lines, from + line * lines.ldf, to + line * lines.ldt);
    }
    ClearPlaces<Vectors>(to + lines.inside, lines.below, lines.shift);
  }
}

template <int Rows, int Vectors>
constexpr void FillNinePixels(NinePixelKernel& kernel) {
  kernel.run[Rows - 1][Vectors - 1] = &MultiplyNine<Rows, Vectors>;
  if constexpr (Rows > 1) FillNinePixels<Rows - 1, Vectors>(kernel);
}

constexpr NinePixelKernel NinePixels() {
  NinePixelKernel kernel{kPointwiseLanes,
                         NarrowVectors::kLanes,
                         {PREHEAT_NINE_PIXELS_TILE, PREHEAT_NINE_PIXELS_TILE / 2, PREHEAT_NINE_PIXELS_TILE / 3},
                         {},
                         {{&SpreadLines<1, NarrowVectors>, &SpreadLines<1, WholeVectors>},
                          {&SpreadLines<2, NarrowVectors>, &SpreadLines<2, WholeVectors>}}};
  FillNinePixels<PREHEAT_NINE_PIXELS_TILE, 1>(kernel);
  FillNinePixels<PREHEAT_NINE_PIXELS_TILE / 2, 2>(kernel);
  FillNinePixels<PREHEAT_NINE_PIXELS_TILE / 3, 3>(kernel);
  static_assert(PREHEAT_NINE_PIXELS_TILE <= NinePixelKernel::kMaxRows);
  static_assert(kPointwiseLanes <= NinePixelKernel::kMaxLanes);
  return kernel;
}

}  // namespace
}  // namespace preheat::library
