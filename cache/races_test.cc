// Two threads at the worst moment: what one does between the steps of another, on one thread.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>

#include "cache/blobs.h"
#include "cache/clock.h"
#include "cache/memory_store.h"
#include "cache/records.h"
#include "cache/verifying_store.h"
#include "compiler/support/digest.h"

namespace preheat::cache {
namespace {

// A store in memory; after the next blob was read, somebody else has his turn.
class InterruptedStore : public MemoryStore {
 public:
  void AfterNextBlob(std::function<void()> turn) { turn_ = std::move(turn); }

  absl::StatusOr<std::optional<std::string>> Get(Table table, absl::string_view key) override {
    auto value = MemoryStore::Get(table, key);
    if (table == Table::kBlob && turn_) std::exchange(turn_, nullptr)();
    return value;
  }

 private:
  std::function<void()> turn_;
};

Change Info(const std::string& bytes) {
  v1::BlobRecord record;
  record.set_size_bytes(static_cast<int64_t>(bytes.size()));
  return PutRecord(Table::kBlobInfo, Digest(bytes), record);
}

TEST(Races, ABlobThatIsPutWhileItIsReadStays) {
  InterruptedStore store;
  Blobs blobs(store, SystemNowMs);
  store.AfterNextBlob([&] {
    ASSERT_TRUE(store.Write({{Table::kBlob, Digest("bytes"), "bytes"}, Info("bytes")}, Durability::kSynced).ok());
  });
  EXPECT_EQ(blobs.Read(Digest("bytes")).value_or(""), "bytes");
  EXPECT_TRUE(*blobs.Has(Digest("bytes"))) << "the publication was acknowledged";
}

TEST(Races, ACorruptBlobThatIsReplacedWhileItIsReadStays) {
  auto inner = std::make_unique<InterruptedStore>();
  InterruptedStore& disk = *inner;
  int corrupt = 0;
  auto store = NewVerifyingStore(std::move(inner), [&](absl::string_view) { ++corrupt; });
  ASSERT_TRUE(disk.Write({{Table::kBlob, Digest("bytes"), "bites"}, Info("bytes")}, Durability::kSynced).ok());
  disk.AfterNextBlob([&] {
    ASSERT_TRUE(store->Write({{Table::kBlob, Digest("bytes"), "bytes"}, Info("bytes")}, Durability::kSynced).ok());
  });
  EXPECT_EQ(store->Get(Table::kBlob, Digest("bytes"))->value_or(""), "bytes");
  EXPECT_TRUE(store->Get(Table::kBlobInfo, Digest("bytes"))->has_value());
  EXPECT_EQ(corrupt, 0) << "it is sound again";
}

}  // namespace
}  // namespace preheat::cache
