#include "cache/artifact_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cache/kernel_index.h"
#include "cache/memory_store.h"
#include "cache/rocksdb_store.h"
#include "cache/tuning_index.h"
#include "cache/verifying_store.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"

namespace preheat::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::UnorderedElementsAre;

constexpr int64_t kHourMs = 3600 * 1000, kDayMs = 24 * kHourMs;

v1::BlobRef Add(Publication& publication, const std::string& bytes) {
  v1::BlobRef ref;
  ref.set_digest(Digest(bytes));
  ref.set_size_bytes(static_cast<int64_t>(bytes.size()));
  publication.blobs[ref.digest()] = bytes;
  return ref;
}

// An artifact whose blobs all differ from those of other names, but for one object that all share.
Publication Example(const std::string& name) {
  Publication publication;
  v1::Manifest& manifest = publication.manifest;
  manifest.set_key(Digest(name));
  manifest.set_target("cpu:x86-64-v3");
  manifest.mutable_seconds()->set_compile(1.5);
  *manifest.mutable_plan() = Add(publication, name + " plan");
  *manifest.add_code() = Add(publication, name + " code");
  *manifest.add_code() = Add(publication, "shared object");
  *manifest.mutable_ir() = Add(publication, name + " ir");
  v1::FusionReport report;
  report.add_extern_calls()->set_op("aten.sort.stable");
  *manifest.mutable_report() = Add(publication, report.SerializeAsString());
  publication.key_fields = {{"ir", name}, {"target", "cpu:x86-64-v3"}};
  publication.name = name;
  return publication;
}

class ArtifactIndexTest : public testing::Test {
 protected:
  int64_t now_ms_ = 1000 * kDayMs;
  std::vector<std::string> corrupt_;
  MemoryStore* raw_ = nullptr;
  std::unique_ptr<Store> store_ = [this] {
    auto inner = std::make_unique<MemoryStore>();
    raw_ = inner.get();
    return NewVerifyingStore(std::move(inner), [this](absl::string_view digest) { corrupt_.emplace_back(digest); });
  }();
  ArtifactIndex index_{*store_, [this] { return now_ms_; }};

  v1::GenerationRecord Publish(const std::string& name) {
    auto record = index_.Publish(Example(name));
    EXPECT_TRUE(record.ok()) << record.status();
    return record.value_or(v1::GenerationRecord());
  }
  std::optional<v1::GenerationRecord> Lookup(const std::string& name, uint32_t generation = 0) {
    auto record = index_.Lookup(Digest(name), generation);
    EXPECT_TRUE(record.ok()) << record.status();
    return *record;
  }
  int CountBlobs() {
    int blobs = 0;
    EXPECT_TRUE(raw_->Scan(Table::kBlob, "", [&](absl::string_view, absl::string_view) { return ++blobs > 0; }).ok());
    return blobs;
  }
};

TEST_F(ArtifactIndexTest, GivesBackWhatWasPublished) {
  EXPECT_FALSE(Lookup("a"));
  v1::GenerationRecord record = Publish("a");
  EXPECT_EQ(record.manifest().generation(), 1u);
  auto found = Lookup("a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->SerializeAsString(), record.SerializeAsString());
  EXPECT_THAT(found->extern_ops(), ElementsAre("aten.sort.stable"));
  EXPECT_EQ(*index_.blobs().Read(found->manifest().plan().digest()), "a plan");
  // The manifest is a blob too, from which the index can be rebuilt.
  v1::Manifest manifest;
  ASSERT_TRUE(manifest.ParseFromString(*index_.blobs().Read(record.manifest_digest())));
  EXPECT_EQ(manifest.key(), Digest("a"));
}

TEST_F(ArtifactIndexTest, CountsGenerationsUp) {
  Publish("a");
  EXPECT_EQ(Publish("a").manifest().generation(), 2u);
  EXPECT_EQ(Lookup("a")->manifest().generation(), 2u);
  EXPECT_EQ(Lookup("a", 1)->manifest().generation(), 1u);
  EXPECT_FALSE(Lookup("a", 3));
}

TEST_F(ArtifactIndexTest, EvidenceOfWhatWasRemovedSaysNothingOfItsSuccessor) {
  Publish("a");
  ASSERT_TRUE(*index_.Remove(Digest("a")));
  v1::Evidence evidence;
  evidence.set_state(v1::Evidence::FAILED);
  ASSERT_TRUE(index_.AddEvidence(Digest("a"), 1, evidence).ok());
  EXPECT_EQ(Publish("a").manifest().generation(), 1u);
  EXPECT_TRUE(Lookup("a"));
}

TEST_F(ArtifactIndexTest, WithdrawsWhatFailedVerification) {
  Publish("a");
  v1::Evidence evidence;
  evidence.set_state(v1::Evidence::OK);
  evidence.set_rel_error(1e-7);
  ASSERT_TRUE(index_.AddEvidence(Digest("a"), 1, evidence).ok());
  EXPECT_EQ(Lookup("a")->manifest().evidence().rel_error(), 1e-7);
  Publish("a");
  evidence.set_state(v1::Evidence::FAILED);
  ASSERT_TRUE(index_.AddEvidence(Digest("a"), 2, evidence).ok());
  EXPECT_EQ(Lookup("a")->manifest().generation(), 1u);
  EXPECT_FALSE(Lookup("a", 2));
  EXPECT_TRUE(*index_.Withdrawn(Digest("a")));
  EXPECT_FALSE(*index_.Withdrawn(Digest("b")));
}

TEST_F(ArtifactIndexTest, ACorruptBlobIsAMissAndIsMadeAnew) {
  v1::GenerationRecord record = Publish("a");
  std::string digest = record.manifest().plan().digest();
  ASSERT_TRUE(raw_->Write({{Table::kBlob, digest, "a plam"}}, Durability::kLazy).ok());
  EXPECT_EQ(GetError(index_.blobs().Read(digest).status()).kind, "unknown_blob");
  EXPECT_THAT(corrupt_, ElementsAre(digest));
  EXPECT_FALSE(Lookup("a"));
  EXPECT_EQ(Publish("a").manifest().generation(), 2u);
  EXPECT_EQ(*index_.blobs().Read(digest), "a plan");
}

TEST_F(ArtifactIndexTest, RefusesWhatIsNotWhole) {
  Publication corrupt = Example("a");
  corrupt.blobs[corrupt.manifest.plan().digest()] = "other";
  EXPECT_EQ(GetError(index_.Publish(corrupt).status()).kind, "corrupt_artifact");
  Publication missing = Example("a");
  missing.blobs.erase(missing.manifest.code(0).digest());
  EXPECT_EQ(GetError(index_.Publish(missing).status()).kind, "incomplete_artifact");
  Publication planless = Example("a");
  planless.manifest.clear_plan();
  EXPECT_EQ(GetError(index_.Publish(planless).status()).kind, "incomplete_artifact");
  Publication keyless = Example("a");
  keyless.manifest.set_key("../../etc");
  EXPECT_EQ(GetError(index_.Publish(keyless).status()).kind, "incomplete_artifact");
  Publication wrong_size = Example("a");
  wrong_size.manifest.mutable_plan()->set_size_bytes(1);
  EXPECT_EQ(GetError(index_.Publish(wrong_size).status()).kind, "incomplete_artifact");
  EXPECT_EQ(CountBlobs(), 0);
}

TEST_F(ArtifactIndexTest, FindsWhatIsMissing) {
  v1::GenerationRecord record = Publish("a");
  std::string other = Digest("other");
  EXPECT_THAT(*index_.blobs().FindMissing({record.manifest().plan().digest(), other}), ElementsAre(other));
  EXPECT_EQ(GetError(index_.blobs().FindMissing({"x"}).status()).kind, "not_a_digest");
}

TEST_F(ArtifactIndexTest, SweepsOnlyWhatNothingNamesAndNobodyTouched) {
  Publish("a");
  Publish("b");
  ASSERT_TRUE(*index_.Remove(Digest("a")));
  EXPECT_FALSE(*index_.Remove(Digest("a")));
  EXPECT_EQ(index_.Sweep(kHourMs, false)->blobs, 0);  // its readers may still be at it
  now_ms_ += 2 * kHourMs;
  std::string orphan = Digest("a plan");
  EXPECT_THAT(*index_.blobs().FindMissing({orphan}), IsEmpty());  // touches
  EXPECT_EQ(index_.Sweep(kHourMs, true)->blobs, 3);
  EXPECT_EQ(index_.Sweep(kHourMs, false)->blobs, 3);  // code, ir, manifest; the report and the object are b's too
  EXPECT_TRUE(*index_.blobs().Has(orphan));
  EXPECT_TRUE(Lookup("b"));
  now_ms_ += 2 * kHourMs;
  EXPECT_EQ(index_.Sweep(kHourMs, false)->blobs, 1);
  EXPECT_EQ(index_.Sweep(kHourMs, false)->blobs, 0);
  EXPECT_EQ(CountBlobs(), 6);
}

TEST_F(ArtifactIndexTest, SweepsAliasesAndKernelsOutOfUse) {
  Publish("a");
  v1::AliasRecord alias;
  alias.set_key(Digest("a"));
  ASSERT_TRUE(index_.PutAlias("of a", alias).ok());
  alias.set_key(Digest("gone"));
  ASSERT_TRUE(index_.PutAlias("of gone", alias).ok());
  KernelIndex kernels(*store_, index_.blobs(), [this] { return now_ms_; });
  ASSERT_TRUE(kernels.Publish({{Digest("k1"), "object 1"}, {Digest("k2"), "object 2"}}).ok());
  now_ms_ += 20 * kDayMs;
  EXPECT_EQ(kernels.Lookup({Digest("k1")})->size(), 1u);
  now_ms_ += 20 * kDayMs;
  EXPECT_EQ(index_.Sweep(kHourMs, false)->blobs, 1);
  EXPECT_THAT(*kernels.Lookup({Digest("k1"), Digest("k2")}),
              UnorderedElementsAre(testing::Pair(Digest("k1"), "object 1")));
  EXPECT_TRUE(index_.FindAlias("of a")->has_value());
  EXPECT_FALSE(index_.FindAlias("of gone")->has_value());
}

TEST_F(ArtifactIndexTest, SweepsTuningRecordsOutOfUse) {
  TuningIndex tuning(*store_, index_.uses());
  ASSERT_TRUE(tuning.Put({{Digest("t1"), "record 1"}, {Digest("t2"), "record 2"}}).ok());
  // Of a version that noted no uses: its month begins with the first sweep.
  ASSERT_TRUE(store_->Write({{Table::kTuning, Digest("t3"), "record 3"}}, Durability::kLazy).ok());
  ASSERT_TRUE(index_.Sweep(kHourMs, false).ok());
  now_ms_ += 20 * kDayMs;
  EXPECT_EQ(tuning.Lookup({Digest("t1")})->size(), 1u);
  ASSERT_TRUE(index_.uses().Flush().ok());
  now_ms_ += 20 * kDayMs;
  ASSERT_TRUE(index_.Sweep(kHourMs, /*dry_run=*/true).ok());
  EXPECT_TRUE(store_->Get(Table::kTuning, Digest("t2"))->has_value());
  ASSERT_TRUE(index_.Sweep(kHourMs, false).ok());
  EXPECT_TRUE(store_->Get(Table::kTuning, Digest("t1"))->has_value());
  EXPECT_FALSE(store_->Get(Table::kTuning, Digest("t2"))->has_value());
  EXPECT_FALSE(store_->Get(Table::kTuning, Digest("t3"))->has_value());
}

TEST_F(ArtifactIndexTest, EvictsTheLeastRecentlyUsedButNoPinnedOne) {
  for (const char* name : {"a", "b", "c", "d"}) {
    Publish(name);
    now_ms_ += 1000;
  }
  index_.uses().Record(Digest("b"), 1);
  ASSERT_TRUE(index_.pins().Pin(Digest("a"), "job", 1).ok());
  // What all share stays; plan, code, IR and manifest of two go.
  const int64_t all = index_.Count()->bytes;
  const int64_t first = *index_.EvictTo(all - 1);
  const int64_t freed = first + *index_.EvictTo(all - first - 1);
  EXPECT_EQ(*index_.EvictTo(all - freed), 0);
  EXPECT_TRUE(Lookup("a"));
  EXPECT_TRUE(Lookup("b"));
  EXPECT_FALSE(Lookup("c"));
  EXPECT_FALSE(Lookup("d"));
  EXPECT_EQ(GetError(index_.Remove(Digest("a")).status()).kind, "pinned");
}

TEST_F(ArtifactIndexTest, EvictsByDistinctBytesOfAllGenerationsAndKernels) {
  KernelIndex kernels(*store_, index_.blobs(), [this] { return now_ms_; });
  ASSERT_TRUE(kernels.Publish({{Digest("old kernel"), std::string(1000, 'o')}}).ok());
  now_ms_ += 1000;
  Publish("a");
  Publish("a");  // the same blobs but for the manifest
  now_ms_ += 1000;
  ASSERT_TRUE(kernels.Publish({{Digest("new kernel"), std::string(1000, 'n')}}).ok());
  const int64_t all = index_.Count()->bytes;
  EXPECT_EQ(*index_.EvictTo(all), 0);
  EXPECT_EQ(*index_.EvictTo(all - 1), 1000);
  EXPECT_TRUE(kernels.Lookup({Digest("old kernel")})->empty());
  EXPECT_TRUE(Lookup("a"));
  EXPECT_EQ(*index_.EvictTo(1000), all - 2000);
  EXPECT_FALSE(Lookup("a"));
  EXPECT_EQ(kernels.Lookup({Digest("new kernel")})->size(), 1u);
  now_ms_ += 2 * kHourMs;
  EXPECT_EQ(index_.Sweep(kHourMs, false)->bytes, all - 1000);
}

TEST_F(ArtifactIndexTest, AHeldBlobOutlivesTheSweep) {
  ASSERT_TRUE(index_.blobs().Put({{Digest("x"), "x"}, {Digest("y"), "y"}}).ok());
  now_ms_ += kDayMs;
  {
    Blobs::Hold hold(index_.blobs(), {Digest("x")});
    EXPECT_EQ(index_.Sweep(kHourMs, false)->blobs, 1);
    EXPECT_EQ(*index_.blobs().Read(Digest("x")), "x");
  }
  EXPECT_EQ(index_.Sweep(kHourMs, false)->blobs, 1);
}

TEST_F(ArtifactIndexTest, APromiseWithoutBytesHeals) {
  v1::GenerationRecord record = Publish("a");
  std::string digest = record.manifest().plan().digest();
  ASSERT_TRUE(raw_->Write({{Table::kBlob, digest, std::nullopt}}, Durability::kLazy).ok());
  EXPECT_TRUE(Lookup("a"));  // by the small record alone
  EXPECT_EQ(GetError(index_.blobs().Read(digest).status()).kind, "unknown_blob");
  EXPECT_FALSE(Lookup("a"));
  // All that is corrupt is replaced by what a new compile brings, asked for or not.
  std::string code = record.manifest().code(0).digest();
  ASSERT_TRUE(raw_->Write({{Table::kBlob, code, "other"}}, Durability::kLazy).ok());
  Publish("a");
  EXPECT_TRUE(Lookup("a"));
  EXPECT_EQ(*index_.blobs().Read(digest), "a plan");
  EXPECT_EQ(*index_.blobs().Read(code), "a code");
}

TEST_F(ArtifactIndexTest, PinsEndSevenDaysAfterTheirLastUse) {
  std::string key = Digest("a");
  ASSERT_TRUE(index_.pins().Pin(key, "job", 3).ok());
  now_ms_ += 6 * kDayMs;
  EXPECT_THAT(*index_.pins().Find(key, "job"), Optional(3u));
  now_ms_ += 6 * kDayMs;
  EXPECT_TRUE(*index_.pins().IsPinned(key));
  now_ms_ += 2 * kDayMs;
  EXPECT_FALSE(*index_.pins().IsPinned(key));
  EXPECT_EQ(*index_.pins().Find(key, "job"), std::nullopt);
  ASSERT_TRUE(index_.pins().Pin(key, "job", 4).ok());
  ASSERT_TRUE(index_.pins().Unpin(key, "job").ok());
  EXPECT_EQ(*index_.pins().Find(key, "job"), std::nullopt);
}

TEST_F(ArtifactIndexTest, ListsWithUses) {
  Publish("a");
  now_ms_ += 5;
  index_.uses().Record(Digest("a"), 1);
  ASSERT_TRUE(index_.uses().Flush().ok());
  index_.uses().Record(Digest("a"), 2);
  auto entries = *index_.List("");
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].name(), "a");
  EXPECT_EQ(entries[0].hits(), 3);
  EXPECT_EQ(entries[0].last_used_unix_ms(), now_ms_);
  EXPECT_EQ(entries[0].compile_seconds(), 1.5);
  EXPECT_EQ(index_.Count()->entries, 1);
  EXPECT_TRUE(index_.List("zz")->empty());
}

TEST_F(ArtifactIndexTest, NamesTheNearestKey) {
  EXPECT_FALSE(index_.FindNearest({{"ir", "x"}})->has_value());
  Publish("a");
  Publish("b");
  auto nearest = *index_.FindNearest({{"ir", "b"}, {"target", "cpu:x86-64-v4"}});
  ASSERT_TRUE(nearest);
  EXPECT_EQ(nearest->key, Digest("b"));
  ASSERT_EQ(nearest->differences.size(), 1u);
  EXPECT_EQ(nearest->differences[0].field(), "target");
  EXPECT_EQ(nearest->differences[0].stored(), "cpu:x86-64-v3");
}

TEST_F(ArtifactIndexTest, PublishesAndSweepsFromThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(index_.Publish(Example(absl::StrCat(i % 3))).ok());
        EXPECT_TRUE(index_.Lookup(Digest("0"), 0).ok());
        if (t == 0) {
          EXPECT_TRUE(index_.Sweep(0, false).ok());
        }
        index_.uses().Record(Digest("0"), 1);
        EXPECT_TRUE(index_.uses().Flush().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Lookup("0")->manifest().generation(), 16u);
  EXPECT_EQ(index_.uses().Get(Digest("0"))->hits(), 40);
}

// Fails every write after the first `writes_`, as a crash does, or loses unsynced ones.
class CrashingStore : public Store {
 public:
  CrashingStore(Store& inner, int writes) : inner_(inner), writes_(writes) {}
  absl::StatusOr<std::optional<std::string>> Get(Table table, absl::string_view key) override {
    return inner_.Get(table, key);
  }
  absl::Status Write(std::vector<Change> changes, Durability durability) override {
    if (writes_-- <= 0) return absl::UnavailableError("crashed");
    return inner_.Write(std::move(changes), durability);
  }
  absl::Status Scan(Table table, absl::string_view prefix, const Visit& visit) override {
    return inner_.Scan(table, prefix, visit);
  }

 private:
  Store& inner_;
  int writes_;
};

TEST(ArtifactIndexCrash, LeavesNothingHalf) {
  bool acknowledged = false;
  for (int writes = 0; !acknowledged; ++writes) {
    ASSERT_LT(writes, 10);
    MemoryStore disk;
    CrashingStore crashing(disk, writes);
    acknowledged = ArtifactIndex(crashing, SystemNowMs).Publish(Example("a")).ok();
    ArtifactIndex after(disk, SystemNowMs);
    auto found = after.Lookup(Digest("a"), 0);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->has_value(), acknowledged);
    EXPECT_TRUE(after.Publish(Example("a")).ok());
    EXPECT_TRUE(after.Lookup(Digest("a"), 0)->has_value());
  }
}

TEST(ArtifactIndexCrash, KeepsWhatWasAcknowledgedAcrossReopening) {
  std::string folder = testing::TempDir() + "/index_reopen";
  std::filesystem::remove_all(folder);
  v1::GenerationRecord record;
  {
    auto store = *OpenRocksdbStore(folder);
    record = *ArtifactIndex(*store, SystemNowMs).Publish(Example("a"));
  }
  auto store = *OpenRocksdbStore(folder);
  ArtifactIndex index(*store, SystemNowMs);
  auto found = *index.Lookup(Digest("a"), 0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->SerializeAsString(), record.SerializeAsString());
  EXPECT_EQ(*index.blobs().Read(found->manifest().code(0).digest()), "a code");
}

}  // namespace
}  // namespace preheat::cache
