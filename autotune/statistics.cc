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

// Every second value from `first` on.
std::vector<double> Half(const std::vector<double>& values, size_t first) {
  std::vector<double> half;
  for (size_t i = first; i < values.size(); i += 2) half.push_back(values[i]);
  return half;
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

double FastestRatio(const std::vector<std::vector<double>>& times) {
  if (times.empty() || times[0].size() < 4) return 1;
  double sum = 0;
  for (const size_t chooses : {0, 1}) {
    size_t fastest = 0;
    for (size_t i = 1; i < times.size(); ++i) {
      if (Median(Half(times[i], chooses)) < Median(Half(times[fastest], chooses))) fastest = i;
    }
    sum += fastest == 0 ? 1 : MedianRatio(Half(times[fastest], 1 - chooses), Half(times[0], 1 - chooses)).value;
  }
  return std::min(1.0, sum / 2);
}

}  // namespace preheat::autotune
