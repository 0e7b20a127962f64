#include "client/cpp/backoff.h"

#include <algorithm>

namespace preheat {

absl::Duration Backoff::Next() {
  const double share = std::uniform_real_distribution<double>(0.5, 1.0)(random_);
  const absl::Duration wait = ceiling_ * share;
  ceiling_ = std::min(ceiling_ * 2, absl::Seconds(2));
  return wait;
}

}  // namespace preheat
