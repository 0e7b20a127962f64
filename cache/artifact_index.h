#ifndef PREHEAT_CACHE_ARTIFACT_INDEX_H_
#define PREHEAT_CACHE_ARTIFACT_INDEX_H_

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/blobs.h"
#include "cache/clock.h"
#include "cache/footprint.h"
#include "cache/ledger.h"
#include "cache/pins.h"
#include "cache/store.h"
#include "cache/use_log.h"
#include "proto/preheat/v1/cache.pb.h"
#include "proto/preheat/v1/store.pb.h"

namespace preheat::cache {

// What a worker hands in for one key.
struct Publication {
  v1::Manifest manifest;                          // key set; generation and creation time are given here
  std::map<std::string, std::string> blobs;       // digest -> bytes: all that it names, unless stored already
  std::map<std::string, std::string> key_fields;  // for why-miss
  std::string name;
};

// Keys, their generations and what is known of them.
//
// Promises: what Publish has acknowledged survives a crash, whole; Lookup never gives a generation of which a blob is
// missing or whose numerics have failed; nothing that a live generation, a pin or a recent reader needs is
// swept. Safe from several threads at once; `store` must outlive it.
class ArtifactIndex {
 public:
  // Every generation is noted in `ledger` as well, if there is one; it must outlive the index.
  ArtifactIndex(Store& store, const Clock& clock, Ledger* ledger = nullptr);

  // At the start of a server: holds the index against the ledger, makes lost generations again whose manifest is there,
  // and brings the ledger up to date. Returns what could not be made again and what was.
  struct Reconciled {
    std::vector<std::string> lost;  // a sentence each, with key and generation
    int64_t remade = 0;
  };
  absl::StatusOr<Reconciled> Reconcile();

  // The given generation, or for 0 the newest one that can be served; its manifest holds the evidence known so far.
  // Nothing when there is none. Does not count as a use.
  absl::StatusOr<std::optional<v1::GenerationRecord>> Lookup(const std::string& key, uint32_t generation);

  // Checks the structure and every digest, then writes blobs, then the next generation of the key with its references,
  // each synced. DATA_LOSS "corrupt_artifact", INVALID_ARGUMENT "incomplete_artifact".
  absl::StatusOr<v1::GenerationRecord> Publish(Publication publication);

  // The same for a generation that another cluster made: it keeps its number if that is free here, and its evidence.
  // False, and nothing is written, when this key has one of the same plan and code.
  absl::StatusOr<bool> Adopt(Publication publication);

  // What verification found. FAILED withdraws the generation: no Lookup gives it again. Of one that was removed
  // meanwhile nothing is kept: its number may be given again.
  absl::Status AddEvidence(const std::string& key, uint32_t generation, const v1::Evidence& evidence);

  // Whether the newest generation of the key has failed verification: the same compiler would make the same again.
  absl::StatusOr<bool> Withdrawn(const std::string& key);

  absl::StatusOr<std::optional<v1::AliasRecord>> FindAlias(const std::string& alias);
  absl::Status PutAlias(const std::string& alias, const v1::AliasRecord& record);

  // The stored key whose fields differ in the fewest places, the IR counting most; nothing when nothing is stored.
  struct Nearest {
    std::string key;
    std::vector<v1::KeyDifference> differences;
  };
  absl::StatusOr<std::optional<Nearest>> FindNearest(const std::map<std::string, std::string>& key_fields);

  // One entry a key: its newest servable generation, or its newest.
  absl::StatusOr<std::vector<v1::Entry>> List(absl::string_view key_prefix);

  // For exports: all keys; the generations of one that can be served, old to new; its name and fields.
  absl::StatusOr<std::vector<std::string>> Keys();
  absl::StatusOr<std::vector<v1::GenerationRecord>> ServableGenerations(const std::string& key);
  absl::StatusOr<v1::KeyRecord> DescribeKey(const std::string& key);

  struct Totals {
    int64_t entries = 0;  // keys with a generation
    int64_t bytes = 0;    // of all blobs, before compression
  };
  absl::StatusOr<Totals> Count();
  // Of all generations, as List counts them, by the namespace that had them compiled.
  absl::StatusOr<std::map<std::string, int64_t>> BytesByNamespace();

  // Forgets a key; its blobs go with a later sweep. FAILED_PRECONDITION "pinned". False when unknown.
  absl::StatusOr<bool> Remove(const std::string& key);

  using Swept = Blobs::Swept;
  // Marks from generations and kernels, then removes the blobs that nothing names, no writer holds and nobody has
  // touched since `min_age_ms` before it began; kernels, aliases and tuning records without use go too. `dry_run` only
  // counts. Others read and publish meanwhile.
  absl::StatusOr<Swept> Sweep(int64_t min_age_ms, bool dry_run);

  // Removes the least recently used keys that no job pins, and kernels, until the blobs that the others name come to at
  // most `max_bytes`. Returns the bytes that only what it removed had named; a later sweep takes them.
  absl::StatusOr<int64_t> EvictTo(int64_t max_bytes);

  // After a sweep that took much: Store::Reclaim.
  absl::Status Reclaim() { return store_.Reclaim(); }

  Blobs& blobs() { return blobs_; }
  Pins& pins() { return pins_; }
  UseLog& uses() { return uses_; }

 private:
  absl::StatusOr<std::vector<v1::GenerationRecord>> Generations(const std::string& key);
  absl::StatusOr<bool> Servable(v1::GenerationRecord& record);  // fills in the evidence
  // REQUIRES writing_ held, as does WriteGeneration, and the blobs held. `manifest.generation` is given.
  absl::StatusOr<v1::GenerationRecord> WriteGeneration(Publication& publication);
  absl::Status CheckBlobs(const Publication& publication);
  absl::StatusOr<Footprint> Measure();

  Store& store_;
  const Clock clock_;
  Ledger* const ledger_;
  Blobs blobs_;
  Pins pins_;
  UseLog uses_;
  std::mutex writing_;   // publishing and removing exclude each other: each generation has its own number
  std::mutex sweeping_;  // one sweep at a time
};

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_ARTIFACT_INDEX_H_
