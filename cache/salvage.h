#ifndef PREHEAT_CACHE_SALVAGE_H_
#define PREHEAT_CACHE_SALVAGE_H_

#include <functional>
#include <string>
#include <vector>

#include "cache/store.h"

namespace preheat::cache {

// Reads a RocksDB store that does not open, file by file and without its index of files, and writes what is sound into
// `out`: records of the index tables by checksum, blobs by digest. Generations that are lost while their manifest, a
// blob, is there are made again from it. Changes nothing in `folder`.
//
// Deletions that only index files knew are forgotten: what comes back is whole or is removed by the next sweep. The
// verdict "failed" of a verification wins over any other.
//
// UNAVAILABLE when `out` fails.
struct Salvaged {
  std::vector<std::string> damage;             // a sentence for each file or part of it that could not be read
  int64_t records = 0, blobs = 0, remade = 0;  // index records, blobs, generations made again
};
absl::StatusOr<Salvaged> Salvage(const std::string& folder, Store& out,
                                 const std::function<void(const std::string&)>& tell);

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_SALVAGE_H_
