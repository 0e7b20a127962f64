#ifndef PREHEAT_CACHE_TUNING_INDEX_H_
#define PREHEAT_CACHE_TUNING_INDEX_H_

#include <map>
#include <string>
#include <vector>

#include "cache/store.h"
#include "cache/use_log.h"

namespace preheat::cache {

// Tuning key (region, machine model and compiler) -> what a tuner has measured: programs that share a region measure it
// once. What is in a record only tuners know (autotune/tuning.h). A sweep (ArtifactIndex::Sweep) takes those that
// nobody has looked up or put for a month: of kernels, machines and compilers that are gone. Safe from several threads
// at once.
class TuningIndex {
 public:
  // Both must outlive it.
  TuningIndex(Store& store, UseLog& uses) : store_(store), uses_(uses) {}

  // Those that are there.
  absl::StatusOr<std::map<std::string, std::string>> Lookup(const std::vector<std::string>& keys);
  // Later measurements replace earlier ones. INVALID_ARGUMENT "not_a_digest".
  absl::Status Put(const std::map<std::string, std::string>& records);

 private:
  Store& store_;
  UseLog& uses_;
};

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_TUNING_INDEX_H_
