#include "autotune/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace preheat::autotune {
namespace {

// The largest k so that the k-th smallest and the k-th largest of n values (from 1) enclose the median with a
// probability of 95%: P(Binomial(n, 1/2) < k) <= 0.025. 0 where there is none.
size_t IntervalRank(size_t n) {
  double term = std::pow(0.5, static_cast<double>(n)), below = 0;
  size_t rank = 0;
  for (size_t k = 0; k < n; ++k) {
    below += term;
    if (below > 0.025) break;
    rank = k + 1;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return rank;
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Ratio MedianRatio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(b[i] > 0 ? a[i] / b[i] : 1);
  std::sort(ratios.begin(), ratios.end());
  const size_t rank = IntervalRank(ratios.size());
  if (rank == 0) return {ratios.empty() ? 1 : Median(ratios), 0, std::numeric_limits<double>::infinity()};
  return {Median(ratios), ratios[rank - 1], ratios[ratios.size() - rank]};
}

double FastestRatio(const Times& first, const Times& second) {
  if (first.empty() || std::min(first[0].size(), second[0].size()) < 2) return 1;
  const auto ratio = [](const Times& choosing, const Times& judging) {
    size_t fastest = 0;
    for (size_t i = 1; i < choosing.size(); ++i) {
      if (Median(choosing[i]) < Median(choosing[fastest])) fastest = i;
    }
    return fastest == 0 ? 1 : MedianRatio(judging[fastest], judging[0]).value;
  };
  return std::min(1.0, (ratio(first, second) + ratio(second, first)) / 2);
}

}  // namespace preheat::autotune
