// A store of PREHEAT_STORE_MB (default 200; 10240 for the promise of 10 GiB) beside an almost empty one: how long it
// takes to open, what a hit costs, and whether a sweep stalls hits. Prints what it measures. With PREHEAT_STORE_FOLDER
// the stores are there, and kept for the next run: filling takes minutes, and measuring wants a quiet machine.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cache/artifact_index.h"
#include "cache/open_store.h"
#include "cache/records.h"
#include "cache/verifying_store.h"
#include "compiler/support/digest.h"
#include "tests/faults/examples.h"

namespace preheat::faults {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kArtifactKb = 1000;  // about what a BERT comes to
constexpr int kHot = 20;           // programs that jobs ask for now

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
std::string NameOf(int i) { return absl::StrCat("artifact ", i); }

int64_t Megabytes() {
  const char* text = std::getenv("PREHEAT_STORE_MB");
  return text == nullptr ? 200 : std::max<int64_t>(20, std::atoll(text));
}

class LargeStore {
 public:
  explicit LargeStore(const std::string& folder) : folder_(folder) {}

  double Open() {
    Close();
    const Clock::time_point start = Clock::now();
    auto opened = cache::OpenStore(folder_ + "/store", {}, [](const std::string&) {});
    EXPECT_TRUE(opened.ok()) << opened.status();
    EXPECT_TRUE(opened->damage.empty());
    store_ = cache::NewVerifyingStore(std::move(opened->store), [](absl::string_view) { ADD_FAILURE() << "corrupt"; });
    ledger_ = *cache::Ledger::Open(folder_ + "/ledger");
    index_ = std::make_unique<cache::ArtifactIndex>(*store_, cache::SystemNowMs, ledger_.get());
    EXPECT_TRUE(index_->Reconcile().ok());
    EXPECT_TRUE(index_->List("").ok());
    return Since(start);
  }
  void Close() {
    index_.reset();
    ledger_.reset();
    store_.reset();
  }

  // Up to that many; those of an earlier run are there.
  void Fill(int artifacts) {
    const Clock::time_point start = Clock::now();
    for (auto i = static_cast<int>(index_->Count()->entries); i < artifacts; ++i) {
      ASSERT_TRUE(index_->Publish(Example(NameOf(i), kArtifactKb)).ok());
      if (i % 1000 == 999) std::printf("filled %d of %d in %.0f s\n", i + 1, artifacts, Since(start));
    }
  }

  // Milliseconds of a lookup with every blob read and verified, sorted.
  std::vector<double> Hits(int artifacts, int count) {
    std::mt19937 random(1);
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      const int number = static_cast<int>(random() % static_cast<unsigned>(artifacts));
      const std::string key = Digest(NameOf(number));
      const Clock::time_point start = Clock::now();
      auto record = index_->Lookup(key, 0);
      EXPECT_TRUE(record.ok() && *record);
      for (const v1::BlobRef& blob : cache::NamedBlobs((*record)->manifest())) {
        EXPECT_TRUE(index_->blobs().Read(blob.digest()).ok());
      }
      times.push_back(1e3 * Since(start));
    }
    std::sort(times.begin(), times.end());
    return times;
  }

  cache::ArtifactIndex& index() { return *index_; }

 private:
  const std::string folder_;
  std::unique_ptr<cache::Store> store_;
  std::unique_ptr<cache::Ledger> ledger_;
  std::unique_ptr<cache::ArtifactIndex> index_;
};

double Report(const char* what, const std::vector<double>& times) {
  std::printf("%-44s p50 %.2f ms, p99 %.2f ms\n", what, times[times.size() / 2], times[times.size() * 99 / 100]);
  return times[times.size() / 2];
}

TEST(LargeStoreTest, OpensSoonAndHitsAsFastAsAnEmptyOne) {
  const char* kept = std::getenv("PREHEAT_STORE_FOLDER");
  const std::string folder = kept != nullptr ? kept : testing::TempDir() + "/large_store";
  if (kept == nullptr) std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/empty");
  const int artifacts = static_cast<int>(Megabytes() * 1024 / kArtifactKb);

  LargeStore empty(folder + "/empty");
  empty.Open();
  empty.Fill(kHot);
  empty.Open();
  LargeStore large(folder);
  large.Open();
  large.Fill(artifacts);
  const double open_seconds = large.Open();
  std::printf("%d artifacts, %ld MB: opened, reconciled and listed in %.2f s\n", artifacts,
              static_cast<long>(large.index().Count()->bytes >> 20), open_seconds);

  empty.Hits(kHot, 100);
  large.Hits(kHot, 100);
  // In turns, so that both see the same machine.
  double empty_p50 = 1e9, large_p50 = 1e9;
  for (int turn = 0; turn < 3; ++turn) {
    empty_p50 = std::min(empty_p50, Report("empty store, hot programs", empty.Hits(kHot, 300)));
    large_p50 = std::min(large_p50, Report("large store, hot programs", large.Hits(kHot, 300)));
  }
  Report("large store, any program", large.Hits(artifacts, 300));

  std::atomic<bool> stop = false;
  std::atomic<int> sweeps = 0;
  std::thread gc([&] {
    while (!stop) {
      EXPECT_TRUE(large.index().Sweep(0, false).ok());
      EXPECT_TRUE(large.index().EvictTo(int64_t{1} << 50).ok());
      ++sweeps;
    }
  });
  std::vector<double> under_gc = large.Hits(kHot, 300);
  stop = true;
  gc.join();
  Report(absl::StrCat("large store, hot, ", sweeps.load(), " sweeps meanwhile").c_str(), under_gc);
  std::printf("longest hit meanwhile: %.1f ms\n", under_gc.back());

  EXPECT_LT(open_seconds, 5);
  EXPECT_LT(large_p50, 1.2 * empty_p50 + 0.1);
  EXPECT_LT(under_gc.back(), 1000) << "a hit waited for the sweep";
  large.Close();
  empty.Close();
  if (kept == nullptr) std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace preheat::faults
