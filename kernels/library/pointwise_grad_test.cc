#include "kernels/library/pointwise_grad.h"

#include <cmath>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/device/cpu_features.h"
#include "kernels/library/micro_kernel.h"

namespace preheat::library {
namespace {

constexpr int64_t kImages = 3, kChannels = 7;

struct Level {
  const char* name;
  const MicroKernels& kernels;
};

std::vector<Level> LevelsOfHost() {
  std::vector<Level> levels;
  for (const Level& level : {Level{"x86-64-v2", kMicroKernelsV2}, Level{"x86-64-v3", kMicroKernelsV3},
                             Level{"x86-64-v4", kMicroKernelsV4}}) {
    if (HostHas(level.name)) levels.push_back(level);
  }
  return levels;
}

double Want(const std::vector<float>& a, int64_t i, const std::vector<float>& b, int64_t j, int64_t positions) {
  double sum = 0;
  for (int64_t image = 0; image < kImages; ++image) {
    for (int64_t p = 0; p < positions; ++p) {
      sum += static_cast<double>(a[static_cast<size_t>((image * kChannels + i) * positions + p)]) *
             b[static_cast<size_t>((image * kChannels + j) * positions + p)];
    }
  }
  return sum;
}

void CheckTile(const PointwiseGradKernel& kernel, int rows, int columns, int64_t positions) {
  std::mt19937 random(static_cast<unsigned>(positions));
  std::normal_distribution<float> normal;
  std::vector<float> a(static_cast<size_t>(kImages * kChannels * positions)), b(a.size());
  for (float& v : a) v = normal(random);
  for (float& v : b) v = normal(random);
  std::vector<double> totals(PointwiseGradKernel::kTotals * 2, 1e30);
  PointwiseGradKernel::Block block{
      kImages,   positions, a.data(), kChannels * positions, positions, b.data(), kChannels * positions,
      positions, a.data(),  a.data(), totals.data()};
  kernel.sum[rows - 1][columns - 1](block, true);
  kernel.sum[rows - 1][columns - 1](block, false);
  for (int i = 0; i < rows * columns; ++i) totals[static_cast<size_t>(PointwiseGradKernel::kTotals + i)] = i;
  std::vector<float> c(kChannels * kChannels, -1);
  kernel.finish[rows - 1][columns - 1](2, totals.data(), PointwiseGradKernel::kTotals, c.data(), 1, kChannels);
  for (int i = 0; i < kChannels; ++i) {
    for (int j = 0; j < kChannels; ++j) {
      const bool inside = i < rows && j < columns;
      const double want = inside ? 2 * Want(a, i, b, j, positions) + i * columns + j : -1;
      EXPECT_NEAR(c[static_cast<size_t>(i + j * kChannels)], want, 2e-4) << i << ", " << j;
    }
  }
}

// Every size of a tile, positions that are whole vectors and others.
TEST(PointwiseGradKernel, SumsProductsOnEveryLevel) {
  for (const Level& level : LevelsOfHost()) {
    const PointwiseGradKernel& kernel = level.kernels.pointwise_grad;
    for (int64_t positions : {16, 17, 31, 49, 80, 196}) {
      for (int rows = 1; rows <= kernel.mr; ++rows) {
        for (int columns = 1; columns <= kernel.nr; ++columns) {
          SCOPED_TRACE(absl::StrCat(level.name, ", ", rows, " x ", columns, ", ", positions, " positions"));
          CheckTile(kernel, rows, columns, positions);
        }
      }
    }
  }
}

}  // namespace
}  // namespace preheat::library
