#ifndef PREHEAT_AUTOTUNE_STATISTICS_H_
#define PREHEAT_AUTOTUNE_STATISTICS_H_

#include <vector>

namespace preheat::autotune {

// A ratio of two times with the 95% interval of its median.
struct Ratio {
  double value = 1, low = 1, high = 1;
};

// The middle value, of an even number the mean of the two in the middle; 0 of nothing.
double Median(std::vector<double> values);

// The median of a[i] / b[i] over rounds in which both were measured, with an interval that holds the true median with a
// probability of at least 95% whatever the distribution is: order statistics by the binomial distribution. Fewer than 6
// rounds cannot say that: the interval is then from 0 to infinity. The two have the same length.
Ratio MedianRatio(const std::vector<double>& a, const std::vector<double>& b);

// The time of the fastest of several relative to the first's, at most 1, by two sets of times[i][round], rounds of
// equal number within a set. The least of several noisy medians is less than any of them is in truth, so the fastest is
// chosen by one set and measured by the other, and the other way round: the mean of the two (sample splitting). 1 where
// a set has no two rounds.
using Times = std::vector<std::vector<double>>;
double FastestRatio(const Times& first, const Times& second);

// Rounds below which MedianRatio has no interval.
inline constexpr int kLeastRounds = 6;

}  // namespace preheat::autotune

#endif  // PREHEAT_AUTOTUNE_STATISTICS_H_
