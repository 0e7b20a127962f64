#ifndef PREHEAT_CLIENT_LOAD_TALLY_H_
#define PREHEAT_CLIENT_LOAD_TALLY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace preheat::load {

// What one client has seen, or, merged, all of them.
struct Tally {
  std::vector<double> hit_ms;  // of each hit, from the request to the last verified byte
  int64_t compiles = 0;        // this client caused
  int64_t coalesced = 0;       // waited for another's
  int64_t errors = 0;
  int64_t bytes = 0;  // of blobs that came and matched their digest
  std::string first_error;

  void AddError(absl::string_view text);
  void Merge(const Tally& other);
};

// The value below which that share (0 to 1) of the sorted values lies; NaN without any.
double Quantile(const std::vector<double>& sorted, double share);

}  // namespace preheat::load

#endif  // PREHEAT_CLIENT_LOAD_TALLY_H_
