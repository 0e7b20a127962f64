#ifndef PREHEAT_CACHE_BLOBS_H_
#define PREHEAT_CACHE_BLOBS_H_

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cache/clock.h"
#include "cache/store.h"

namespace preheat::cache {

// Bytes by digest. Safe from several threads at once; one object for a store, as writers and the sweep meet in it.
class Blobs {
 public:
  // `store` must outlive it.
  Blobs(Store& store, Clock clock) : store_(store), clock_(std::move(clock)) {}

  // Whether the bytes are there, by the small record alone; they are verified when read.
  absl::StatusOr<bool> Has(absl::string_view digest);

  // The bytes. NOT_FOUND "unknown_blob", also when they turned out to be corrupt: from then on Has says so too.
  absl::StatusOr<std::string> Read(absl::string_view digest);

  // Those that are not there, in order. The others count as just used. INVALID_ARGUMENT "not_a_digest".
  absl::StatusOr<std::vector<std::string>> FindMissing(const std::vector<std::string>& digests);

  // Writes those that are not there and touches those that are, synced: when it returns OK they survive a crash, and no
  // sweep takes them before they are as old as its floor. REQUIRES: each digest is that of its bytes.
  absl::Status Put(const std::map<std::string, std::string>& blobs);

  // Makes the sweep spare them for a while, whoever names them. Unknown ones are ignored.
  absl::Status Touch(const std::vector<std::string>& digests, Durability durability);

  // Keeps every sweep from these digests while it lives, there or not: for a writer between its blobs and the record
  // that names them.
  class Hold {
   public:
    Hold(Blobs& blobs, std::vector<std::string> digests);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Blobs& blobs_;
    const std::vector<std::string> digests_;
  };

  // What is held now. A sweep asks after it has noted the time and before it looks at who names what: a writer is then
  // either in this set, or touches its blobs after the noted time.
  std::set<std::string> Held();

  struct Swept {
    int64_t blobs = 0;
    int64_t bytes = 0;  // before compression
  };
  // Removes those that nobody holds and nobody has touched at `since_ms` or later. `dry_run` only counts.
  absl::StatusOr<Swept> RemoveUntouched(const std::vector<std::string>& digests, int64_t since_ms, bool dry_run);

 private:
  absl::StatusOr<std::optional<std::string>> ReadOrForget(absl::string_view digest);

  Store& store_;
  const Clock clock_;
  // Between looking whether a blob is there and acting on it. Held over a write at most.
  std::mutex mutex_;
  std::multiset<std::string> held_;  // guarded by mutex_
};

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_BLOBS_H_
