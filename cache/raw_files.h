#ifndef PREHEAT_CACHE_RAW_FILES_H_
#define PREHEAT_CACHE_RAW_FILES_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace preheat::cache {

// RocksDB's files as they lie on the disk (7.8), for when its index of them is lost. Both readers go on after damage as
// soon as something checks again.

struct RawScan {
  int64_t records = 0;        // sound ones, all visited
  int64_t damaged_bytes = 0;  // that belong to none
};

// Every record of a blob file whose key is the digest of its value: damage cannot pass. UNAVAILABLE when the file
// cannot be opened.
absl::StatusOr<RawScan> ScanBlobFile(const std::string& path,
                                     const std::function<void(absl::string_view digest, std::string bytes)>& visit);

// Every batch of a write-ahead log whose checksums hold, in order. A torn end is damage like any other here.
absl::StatusOr<RawScan> ScanLogFile(const std::string& path, const std::function<void(std::string batch)>& visit);

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_RAW_FILES_H_
