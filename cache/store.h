#ifndef PREHEAT_CACHE_STORE_H_
#define PREHEAT_CACHE_STORE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace preheat::cache {

// The maps that a server keeps. Names are on disk (column families): add at the end, never rename.
enum class Table : uint8_t {
  kBlob,        // digest -> bytes
  kBlobInfo,    // digest -> BlobRecord: what is asked on every hit, without touching the bytes
  kGeneration,  // key/generation -> GenerationRecord
  kEvidence,    // key/generation -> Evidence, added later than the manifest
  kKey,         // key -> KeyRecord
  kAlias,       // hash of a request -> AliasRecord
  kKernel,      // kernel key -> KernelRecord
  kTuning,      // tuning key -> record
  kPin,         // key/job -> PinRecord
  kUse,         // key, or tuning key -> UseRecord
  kQuarantine,  // digest -> bytes that did not match it
  kMeta,        // facts of the server's own: "toolchain"
};
inline constexpr std::array<const char*, 12> kTableNames = {"blob", "blob_info", "generation", "evidence",
                                                            "key",  "alias",     "kernel",     "tuning",
                                                            "pin",  "use",       "quarantine", "meta"};

// Put (value set) or Delete (value absent).
struct Change {
  Table table;
  std::string key;
  std::optional<std::string> value;
};

enum class Durability {
  kLazy,    // may be lost by a crash; never by the end of the process
  kSynced,  // survives a crash once Write has returned OK
};

// Ordered maps of bytes with atomic batches: what every cache concern is built on. Decorators (verifying_store,
// metrics_store) wrap one and are one. Safe to use from several threads at once. Every function may return
// UNAVAILABLE "store_failed"; nothing throws.
class Store {
 public:
  virtual ~Store() = default;

  // Absent keys are nullopt, not an error.
  virtual absl::StatusOr<std::optional<std::string>> Get(Table table, absl::string_view key) = 0;

  // All changes or none.
  virtual absl::Status Write(std::vector<Change> changes, Durability durability) = 0;

  // Calls `visit` for the keys that start with `prefix`, in byte order, until it returns false. Sees the state of one
  // moment; `visit` may call the store.
  using Visit = std::function<bool(absl::string_view key, absl::string_view value)>;
  virtual absl::Status Scan(Table table, absl::string_view prefix, const Visit& visit) = 0;

  // Gives the space of deleted blobs back to the disk. May take minutes; others read and write meanwhile.
  virtual absl::Status Reclaim() { return absl::OkStatus(); }
};

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_STORE_H_
