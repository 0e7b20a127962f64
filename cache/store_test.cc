#include "cache/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "cache/memory_store.h"
#include "cache/metrics_store.h"
#include "cache/rocksdb_store.h"
#include "cache/verifying_store.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"

namespace preheat::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

std::string FreshFolder(const std::string& name) {
  std::string folder = testing::TempDir() + "/" + name;
  std::filesystem::remove_all(folder);
  return folder;
}

std::unique_ptr<Store> Rocksdb(const std::string& folder) {
  auto store = OpenRocksdbStore(folder);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

// What every store promises, whatever it is made of.
struct Kind {
  const char* name;
  std::unique_ptr<Store> (*make)();
};
class StoreConformance : public testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Store> store_ = GetParam().make();

  std::vector<std::string> Keys(Table table, absl::string_view prefix) {
    std::vector<std::string> keys;
    EXPECT_TRUE(store_
                    ->Scan(table, prefix,
                           [&](absl::string_view key, absl::string_view) {
                             keys.emplace_back(key);
                             return true;
                           })
                    .ok());
    return keys;
  }
};

TEST_P(StoreConformance, GivesBackWhatWasPut) {
  std::string bytes("a\0b\xff", 4);
  ASSERT_TRUE(store_->Write({{Table::kMeta, "k", bytes}, {Table::kMeta, "empty", ""}}, Durability::kSynced).ok());
  EXPECT_THAT(*store_->Get(Table::kMeta, "k"), Optional(bytes));
  EXPECT_THAT(*store_->Get(Table::kMeta, "empty"), Optional(std::string()));
  EXPECT_EQ(*store_->Get(Table::kMeta, "other"), std::nullopt);
}

TEST_P(StoreConformance, KeepsTablesApart) {
  ASSERT_TRUE(store_->Write({{Table::kAlias, "k", "alias"}, {Table::kKernel, "k", "kernel"}}, Durability::kLazy).ok());
  EXPECT_THAT(*store_->Get(Table::kAlias, "k"), Optional(std::string("alias")));
  EXPECT_THAT(*store_->Get(Table::kKernel, "k"), Optional(std::string("kernel")));
  EXPECT_EQ(*store_->Get(Table::kPin, "k"), std::nullopt);
}

TEST_P(StoreConformance, AppliesABatchInOrder) {
  ASSERT_TRUE(store_->Write({{Table::kMeta, "a", "1"}, {Table::kMeta, "b", "1"}}, Durability::kLazy).ok());
  ASSERT_TRUE(store_
                  ->Write({{Table::kMeta, "a", std::nullopt},
                           {Table::kMeta, "b", std::nullopt},
                           {Table::kMeta, "b", "2"},
                           {Table::kMeta, "never there", std::nullopt}},
                          Durability::kSynced)
                  .ok());
  EXPECT_EQ(*store_->Get(Table::kMeta, "a"), std::nullopt);
  EXPECT_THAT(*store_->Get(Table::kMeta, "b"), Optional(std::string("2")));
}

TEST_P(StoreConformance, ScansAPrefixInOrder) {
  ASSERT_TRUE(store_
                  ->Write({{Table::kKey, "b/2", ""},
                           {Table::kKey, "b/1", ""},
                           {Table::kKey, "a", ""},
                           {Table::kKey, "b", ""},
                           {Table::kKey, "c", ""}},
                          Durability::kLazy)
                  .ok());
  EXPECT_THAT(Keys(Table::kKey, ""), ElementsAre("a", "b", "b/1", "b/2", "c"));
  EXPECT_THAT(Keys(Table::kKey, "b/"), ElementsAre("b/1", "b/2"));
  EXPECT_THAT(Keys(Table::kKey, "d"), ElementsAre());
}

TEST_P(StoreConformance, AScanMayStopAndMayWrite) {
  ASSERT_TRUE(store_->Write({{Table::kKey, "a", ""}, {Table::kKey, "b", ""}}, Durability::kLazy).ok());
  int seen = 0;
  ASSERT_TRUE(
      store_
          ->Scan(Table::kKey, "",
                 [&](absl::string_view key, absl::string_view) {
                   ++seen;
                   EXPECT_TRUE(store_->Write({{Table::kKey, std::string(key), std::nullopt}}, Durability::kLazy).ok());
                   return false;
                 })
          .ok());
  EXPECT_EQ(seen, 1);
  EXPECT_THAT(Keys(Table::kKey, ""), ElementsAre("b"));
}

TEST_P(StoreConformance, TakesLargeBlobs) {
  std::string bytes(9 << 20, 'x');
  for (size_t i = 0; i < bytes.size(); i += 4097) bytes[i] = static_cast<char>(i * 31);
  ASSERT_TRUE(store_->Write({{Table::kBlob, Digest(bytes), bytes}}, Durability::kSynced).ok());
  auto read = store_->Get(Table::kBlob, Digest(bytes));
  ASSERT_TRUE(read.ok() && *read);
  EXPECT_TRUE(**read == bytes);
}

TEST_P(StoreConformance, ServesThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        std::string key = std::to_string(t) + "/" + std::to_string(i);
        EXPECT_TRUE(store_->Write({{Table::kUse, key, key}, {Table::kKey, "shared", key}}, Durability::kLazy).ok());
        EXPECT_THAT(*store_->Get(Table::kUse, key), Optional(key));
        EXPECT_TRUE(store_->Get(Table::kKey, "shared")->has_value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Keys(Table::kUse, "").size(), 200u);
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreConformance,
    testing::Values(Kind{"Memory", []() -> std::unique_ptr<Store> { return std::make_unique<MemoryStore>(); }},
                    Kind{"Rocksdb", [] { return Rocksdb(FreshFolder("conformance")); }},
                    Kind{"Decorated",
                         [] {
                           return NewMetricsStore(
                               NewVerifyingStore(std::make_unique<MemoryStore>(), [](absl::string_view) {}),
                               [](Direction, size_t) {});
                         }}),
    [](const auto& info) { return info.param.name; });

TEST(RocksdbStore, KeepsItsContentsAcrossReopening) {
  std::string folder = FreshFolder("reopen");
  std::string bytes(100000, 'b');
  {
    auto store = Rocksdb(folder);
    ASSERT_TRUE(store->Write({{Table::kBlob, "d", bytes}, {Table::kKey, "k", "v"}}, Durability::kSynced).ok());
  }
  auto store = Rocksdb(folder);
  EXPECT_THAT(*store->Get(Table::kBlob, "d"), Optional(bytes));
  EXPECT_THAT(*store->Get(Table::kKey, "k"), Optional(std::string("v")));
}

uint64_t BytesIn(const std::string& folder, const std::string& ending) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ending) bytes += entry.file_size();
  }
  return bytes;
}

// Blobs that do not compress, of 100 KB each, in files: the store is opened again, which empties its log.
std::vector<std::string> FillWithBlobs(const std::string& folder, int count) {
  std::mt19937_64 random(3);
  std::vector<std::string> digests;
  RocksdbOptions options;
  options.write_buffer_bytes = 256 << 10;
  auto store = OpenRocksdbStore(folder, options);
  for (int i = 0; i < count; ++i) {
    std::string bytes;
    while (bytes.size() < 100000) bytes += std::to_string(random());
    digests.push_back(Digest(bytes));
    EXPECT_TRUE(
        (*store)
            ->Write({{Table::kBlob, digests.back(), bytes}, {Table::kBlobInfo, digests.back(), ""}}, Durability::kLazy)
            .ok());
  }
  return digests;
}

TEST(RocksdbStore, GivesSpaceBack) {
  std::string folder = FreshFolder("reclaim");
  std::vector<std::string> digests = FillWithBlobs(folder, 40);
  auto store = Rocksdb(folder);
  const uint64_t before = BytesIn(folder, ".blob");
  std::vector<Change> changes;
  for (size_t i = 0; i < 30; ++i) changes.push_back({Table::kBlob, digests[i], std::nullopt});
  ASSERT_TRUE(store->Write(std::move(changes), Durability::kSynced).ok());
  ASSERT_TRUE(store->Reclaim().ok());
  EXPECT_LT(BytesIn(folder, ".blob"), before / 2);
  for (size_t i = 30; i < 40; ++i) EXPECT_EQ(Digest(**store->Get(Table::kBlob, digests[i])), digests[i]);
}

TEST(RocksdbStore, ReclaimSortsOutWhatIsCorrupt) {
  std::string folder = FreshFolder("reclaim_corrupt");
  std::vector<std::string> digests = FillWithBlobs(folder, 20);
  Rocksdb(folder).reset();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".blob") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5000);
    file << "no longer what it was";
  }
  int corrupt = 0;
  auto store = NewVerifyingStore(Rocksdb(folder), [&](absl::string_view) { ++corrupt; });
  ASSERT_TRUE(store->Write({{Table::kBlob, digests[3], std::nullopt}}, Durability::kSynced).ok());
  EXPECT_TRUE(store->Reclaim().ok());
  EXPECT_GT(corrupt, 0);
  EXPECT_TRUE(store->Write({{Table::kKey, "k", "v"}}, Durability::kSynced).ok()) << "the store goes on";
  int sound = 0;
  for (const std::string& digest : digests) sound += store->Get(Table::kBlob, digest)->has_value();
  EXPECT_GT(sound, 5);
}

TEST(RocksdbStore, RefusesAFolderThatIsOpen) {
  std::string folder = FreshFolder("locked");
  auto store = Rocksdb(folder);
  auto second = OpenRocksdbStore(folder);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(GetError(second.status()).kind, "data_dir_in_use");
}

TEST(RocksdbStore, NamesAFolderThatCannotBe) {
  auto store = OpenRocksdbStore("/proc/nowhere/store");
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(GetError(store.status()).where, "/proc/nowhere/store");
}

TEST(VerifyingStore, QuarantinesWhatDoesNotMatch) {
  auto inner = std::make_unique<MemoryStore>();
  MemoryStore* raw = inner.get();
  std::vector<std::string> corrupt;
  auto store = NewVerifyingStore(std::move(inner), [&](absl::string_view digest) { corrupt.emplace_back(digest); });
  std::string good = Digest("good"), bad = Digest("bad");
  ASSERT_TRUE(raw->Write({{Table::kBlob, good, "good"}, {Table::kBlob, bad, "bat"}, {Table::kBlobInfo, bad, ""}},
                         Durability::kLazy)
                  .ok());
  EXPECT_THAT(*store->Get(Table::kBlob, good), Optional(std::string("good")));
  EXPECT_EQ(*store->Get(Table::kBlob, bad), std::nullopt);
  EXPECT_THAT(corrupt, ElementsAre(bad));
  EXPECT_EQ(*raw->Get(Table::kBlobInfo, bad), std::nullopt);
  EXPECT_THAT(*raw->Get(Table::kQuarantine, bad), Optional(std::string("bat")));
  EXPECT_EQ(*store->Get(Table::kBlob, bad), std::nullopt);
  EXPECT_EQ(corrupt.size(), 1u);  // counted once
}

TEST(MetricsStore, CountsBlobBytesOnly) {
  size_t read = 0, written = 0;
  auto store = NewMetricsStore(std::make_unique<MemoryStore>(), [&](Direction direction, size_t bytes) {
    (direction == Direction::kRead ? read : written) += bytes;
  });
  ASSERT_TRUE(store->Write({{Table::kBlob, "d", "12345"}, {Table::kKey, "k", "123"}}, Durability::kLazy).ok());
  ASSERT_TRUE(store->Get(Table::kBlob, "d").ok());
  ASSERT_TRUE(store->Get(Table::kBlob, "none").ok());
  ASSERT_TRUE(store->Get(Table::kKey, "k").ok());
  EXPECT_EQ(written, 5u);
  EXPECT_EQ(read, 5u);
}

}  // namespace
}  // namespace preheat::cache
