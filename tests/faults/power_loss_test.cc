// The power goes at every step of what the store does: what it had acknowledged is there afterwards, bit for bit, and
// what it had acknowledged to be gone is gone. Every PREHEAT_FAULT_STRIDE-th step (default 7; 1 is all of them), each
// with another random choice of what a disk may keep of the unsynced rest.

#include "tests/faults/power_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cache/artifact_index.h"
#include "cache/kernel_index.h"
#include "cache/open_store.h"
#include "cache/records.h"
#include "cache/verifying_store.h"
#include "compiler/support/digest.h"
#include "tests/faults/examples.h"

namespace preheat::faults {
namespace {

using cache::ArtifactIndex;
using cache::Publication;

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

// What the outside was told.
struct Acknowledged {
  std::map<std::string, std::map<std::string, std::string>> blobs;  // key -> digest -> bytes
  std::map<std::string, std::string> records;                       // key -> the generation, serialized
  std::set<std::string> removed;                                    // keys
  std::set<std::string> unknown;                                    // keys that were being removed when the power went
  std::map<std::string, uint32_t> pins;                             // key -> generation
};

// A day of a store in a second: artifacts come and go, get evidence and pins, kernels come, the sweep runs. Ends at the
// first error.
class Workload {
 public:
  Workload(cache::Store& store, Acknowledged& told)
      : index_(store, cache::SystemNowMs), kernels_(store, index_.blobs(), cache::SystemNowMs), told_(told) {}

  bool Run() {
    for (int i = 0; i < 6; ++i) {
      std::string name = absl::StrCat("artifact ", i);
      if (!Publish(name, 4 + 9 * i) || !PublishKernel(name)) return false;
      if (i == 1 && !Pin(name)) return false;
      if (i % 2 == 0 && !index_.AddEvidence(Digest(name), 1, Fine()).ok()) return false;
      if (i >= 2 && i % 2 == 0 && !Remove(absl::StrCat("artifact ", i - 2))) return false;
      if (!index_.Sweep(0, false).ok() || !index_.uses().Flush().ok()) return false;
    }
    return true;
  }

 private:
  static v1::Evidence Fine() {
    v1::Evidence evidence;
    evidence.set_state(v1::Evidence::OK);
    return evidence;
  }
  bool Publish(const std::string& name, int size_kb) {
    Publication publication = Example(name, size_kb);
    auto record = index_.Publish(publication);
    if (!record.ok()) return false;
    told_.blobs[Digest(name)] = publication.blobs;
    told_.records[Digest(name)] = record->SerializeAsString();
    return true;
  }
  bool PublishKernel(const std::string& name) {
    return kernels_.Publish({{Digest("kernel of " + name), Noise("object of " + name, 3000)}}).ok();
  }
  bool Pin(const std::string& name) {
    if (!index_.pins().Pin(Digest(name), "job", 1).ok()) return false;
    told_.pins[Digest(name)] = 1;
    return true;
  }
  bool Remove(const std::string& name) {
    told_.blobs.erase(Digest(name));
    told_.unknown.insert(Digest(name));
    if (!index_.Remove(Digest(name)).ok()) return false;
    told_.unknown.erase(Digest(name));
    told_.removed.insert(Digest(name));
    return true;
  }

  ArtifactIndex index_;
  cache::KernelIndex kernels_;
  Acknowledged& told_;
};

class PowerLossTest : public testing::Test {
 protected:
  PowerLossTest() { Clear(); }
  ~PowerLossTest() override { Clear(); }

  void Clear() {
    std::filesystem::remove_all(folder_);
    std::filesystem::remove_all(folder_ + ".aside");
  }

  cache::RocksdbOptions Options() {
    cache::RocksdbOptions options;
    options.env = env_.get();
    options.write_buffer_bytes = 64 << 10;  // the least that RocksDB takes: files come and go
    return options;
  }

  // Nothing was damaged, so a store that calls itself so would be wrong; a torn end of the log is no damage.
  std::unique_ptr<cache::Store> Open() {
    auto opened = cache::OpenStore(folder_, Options(), [](const std::string&) {});
    if (!opened.ok()) return nullptr;
    EXPECT_FALSE(opened->rebuilt) << testing::PrintToString(opened->damage);
    return std::move(opened->store);
  }

  void RunUntilCut(Acknowledged& told) {
    std::unique_ptr<cache::Store> store = Open();
    if (store != nullptr) Workload(*store, told).Run();
  }

  void Check(const Acknowledged& told) {
    std::unique_ptr<cache::Store> disk = Open();
    ASSERT_NE(disk, nullptr) << "the store does not open";
    int corrupt = 0;
    auto store = cache::NewVerifyingStore(std::move(disk), [&](absl::string_view) { ++corrupt; });
    ArtifactIndex index(*store, cache::SystemNowMs);
    ASSERT_TRUE(index.Sweep(0, false).ok());  // takes nothing that is named
    for (const auto& [key, blobs] : told.blobs) {
      auto found = index.Lookup(key, 0);
      ASSERT_TRUE(found.ok() && *found) << key << " was acknowledged";
      (*found)->mutable_manifest()->clear_evidence();
      EXPECT_EQ((*found)->SerializeAsString(), told.records.at(key));
      for (const auto& [digest, bytes] : blobs) {
        auto read = index.blobs().Read(digest);
        ASSERT_TRUE(read.ok()) << read.status();
        EXPECT_EQ(*read, bytes);
      }
    }
    for (const auto& [key, generation] : told.pins) EXPECT_EQ(**index.pins().Find(key, "job"), generation);
    for (const std::string& key : told.removed) EXPECT_FALSE(index.Lookup(key, 0)->has_value()) << key;
    // Whatever else is served is whole, and the store goes on.
    const std::vector<v1::Entry> entries = *index.List("");
    for (const v1::Entry& entry : entries) {
      auto found = *index.Lookup(entry.key(), 0);
      if (!found) continue;
      for (const v1::BlobRef& blob : cache::NamedBlobs(found->manifest()))
        EXPECT_TRUE(index.blobs().Read(blob.digest()).ok());
    }
    EXPECT_EQ(corrupt, 0);
    EXPECT_TRUE(index.Publish(Example("artifact 0", 4)).ok());
    EXPECT_TRUE(index.Lookup(Digest("artifact 0"), 0)->has_value());
  }

  const std::string folder_ = testing::TempDir() + "/power_loss";
  std::shared_ptr<PowerLoss> power_ = std::make_shared<PowerLoss>();
  std::unique_ptr<rocksdb::Env> env_ = rocksdb::NewCompositeEnv(power_);
};

TEST_F(PowerLossTest, AtEveryStepOfAWrite) {
  Acknowledged all;
  RunUntilCut(all);
  const int64_t steps = power_->steps();
  ASSERT_EQ(all.records.size(), 6u) << "the workload runs to its end when nothing fails";
  ASSERT_GT(steps, 150);
  const int64_t stride = FromEnvironment("PREHEAT_FAULT_STRIDE", 7);
  for (int64_t step = 1; step <= steps; step += stride) {
    SCOPED_TRACE(absl::StrCat("cut at step ", step, " of ", steps));
    power_->Restore(0);
    Clear();
    power_->CutAtStep(step);
    Acknowledged told;
    RunUntilCut(told);
    ASSERT_TRUE(power_->is_cut() || step > steps - 20);
    power_->Restore(static_cast<uint64_t>(step));
    Check(told);
    if (HasFatalFailure()) return;
  }
}

// The same under several writers and a sweep that never stops; where it is cut is chance.
TEST_F(PowerLossTest, UnderWritersAndSweep) {
  const int64_t rounds = FromEnvironment("PREHEAT_FAULT_ROUNDS", 6);
  for (int64_t round = 1; round <= rounds; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    power_->Restore(0);
    Clear();
    power_->CutAtStep(120 + static_cast<int64_t>(std::mt19937_64(static_cast<uint64_t>(round))() % 400));
    std::vector<Acknowledged> told(3);
    if (std::unique_ptr<cache::Store> store = Open(); store != nullptr) {
      ArtifactIndex index(*store, cache::SystemNowMs);
      std::vector<std::thread> threads;
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
          for (int i = 0; i < 40; ++i) {
            Publication publication = Example(absl::StrCat(t, " ", i), 5 + i);
            if (auto record = index.Publish(publication); record.ok()) {
              told[t].blobs[publication.manifest.key()] = publication.blobs;
              told[t].records[publication.manifest.key()] = record->SerializeAsString();
            } else {
              return;
            }
          }
        });
      }
      while (index.Sweep(0, false).ok() && !power_->is_cut()) std::this_thread::yield();
      for (std::thread& thread : threads) thread.join();
    }
    power_->Restore(static_cast<uint64_t>(round));
    for (const Acknowledged& one : told) Check(one);
  }
}

// The instrument itself: it loses what was not synced, and keeps what was.
TEST_F(PowerLossTest, LosesWhatWasNotSynced) {
  std::filesystem::create_directories(folder_);
  auto write = [&](const std::string& name, bool sync, bool sync_folder) {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    ASSERT_TRUE(power_->NewWritableFile(folder_ + "/" + name, {}, &file, nullptr).ok());
    ASSERT_TRUE(file->Append(std::string(1000, 'x'), {}, nullptr).ok());
    if (sync) {
      ASSERT_TRUE(file->Sync({}, nullptr).ok());
    }
    ASSERT_TRUE(file->Close({}, nullptr).ok());
    if (!sync_folder) return;
    std::unique_ptr<rocksdb::FSDirectory> folder;
    ASSERT_TRUE(power_->NewDirectory(folder_, {}, &folder, nullptr).ok());
    ASSERT_TRUE(folder->Fsync({}, nullptr).ok());
  };
  int lost = 0, shorter = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    write("synced", true, true);
    write("unsynced", false, true);
    write("nameless", true, false);
    power_->Restore(seed);
    EXPECT_EQ(std::filesystem::file_size(folder_ + "/synced"), 1000u);
    shorter += std::filesystem::file_size(folder_ + "/unsynced") < 1000;
    lost += !std::filesystem::exists(folder_ + "/nameless");
    Clear();
    std::filesystem::create_directories(folder_);
  }
  EXPECT_GT(lost, 3);
  EXPECT_GT(shorter, 10);
}

}  // namespace
}  // namespace preheat::faults
