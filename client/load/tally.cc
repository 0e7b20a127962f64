#include "client/load/tally.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace preheat::load {

void Tally::AddError(absl::string_view text) {
  if (errors++ == 0) first_error = std::string(text);
}

void Tally::Merge(const Tally& other) {
  hit_ms.insert(hit_ms.end(), other.hit_ms.begin(), other.hit_ms.end());
  compiles += other.compiles;
  coalesced += other.coalesced;
  bytes += other.bytes;
  if (errors == 0) first_error = other.first_error;
  errors += other.errors;
}

double Quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  const auto index = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

}  // namespace preheat::load
