// Bytes of the store's files change, end early or vanish: the store opens, never gives wrong bytes, and what it cannot
// give any more it says by name. PREHEAT_FAULT_FLIPS places a file (default 2), at random but the same in each run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/artifact_index.h"
#include "cache/open_store.h"
#include "cache/verifying_store.h"
#include "compiler/support/digest.h"
#include "tests/faults/examples.h"

namespace preheat::faults {
namespace {

namespace fs = std::filesystem;
using cache::ArtifactIndex;
using cache::Publication;

constexpr int kArtifacts = 8;

std::string NameOf(int i) { return absl::StrCat("artifact ", i); }

cache::RocksdbOptions Small() {
  cache::RocksdbOptions options;
  options.write_buffer_bytes = 64 << 10;
  return options;
}

// A data folder as the server lays it out: store/ and ledger.
void Fill(const std::string& folder, int size_kb, const cache::RocksdbOptions& options) {
  fs::create_directories(folder);
  auto opened = cache::OpenStore(folder + "/store", options, [](const std::string&) {});
  ASSERT_TRUE(opened.ok()) << opened.status();
  auto ledger = cache::Ledger::Open(folder + "/ledger");
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  ArtifactIndex index(*opened->store, cache::SystemNowMs, ledger->get());
  for (int i = 0; i < kArtifacts; ++i) ASSERT_TRUE(index.Publish(Example(NameOf(i), size_kb)).ok());
}

using Harm = std::function<void(const std::string& path)>;

void FlipAt(const std::string& path, size_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  char byte = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 0x10));
}

class Damaged {
 public:
  explicit Damaged(const std::string& folder) : folder_(folder) {}

  void Check() {
    auto opened = cache::OpenStore(folder_ + "/store", Small(), [](const std::string&) {});
    ASSERT_TRUE(opened.ok()) << opened.status();
    found_ = opened->damage.size();
    auto store = cache::NewVerifyingStore(std::move(opened->store), [&](absl::string_view) { ++found_; });
    auto ledger = cache::Ledger::Open(folder_ + "/ledger");
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    found_ += static_cast<size_t>((*ledger)->damaged_lines());
    ledger_is_whole_ = (*ledger)->entries().size() == kArtifacts;
    ArtifactIndex index(*store, cache::SystemNowMs, ledger->get());
    auto reconciled = index.Reconcile();
    ASSERT_TRUE(reconciled.ok()) << reconciled.status();
    lost_ = reconciled->lost;
    for (int i = 0; i < kArtifacts; ++i) CheckArtifact(index, NameOf(i));
    EXPECT_TRUE(index.Sweep(0, false).ok());
    EXPECT_EQ(index.List("")->size(), static_cast<size_t>(kArtifacts));
  }

 private:
  void CheckArtifact(ArtifactIndex& index, const std::string& name) {
    auto record = index.Lookup(Digest(name), 0);
    ASSERT_TRUE(record.ok()) << record.status();
    if (!*record && ledger_is_whole_) {
      EXPECT_TRUE(IsNamed(Digest(name)) || found_ > 0) << name << " is gone and nobody says so";
    }
    Publication publication = Example(name, 1);
    if (*record && ReadsRight(index, (*record)->manifest())) return;
    EXPECT_GT(found_ + lost_.size(), 0u);
    EXPECT_FALSE(index.Lookup(Digest(name), 0)->has_value()) << "a lost blob makes a miss";
    EXPECT_TRUE(index.Publish(Example(name, 20)).ok()) << "and it is compiled again";
    record = index.Lookup(Digest(name), 0);
    ASSERT_TRUE(record.ok() && *record);
    EXPECT_TRUE(ReadsRight(index, (*record)->manifest()));
  }
  bool ReadsRight(ArtifactIndex& index, const v1::Manifest& manifest) {
    bool all = true;
    std::vector<v1::BlobRef> blobs(manifest.code().begin(), manifest.code().end());
    blobs.push_back(manifest.plan());
    for (const v1::BlobRef& blob : blobs) {
      auto bytes = index.blobs().Read(blob.digest());
      if (bytes.ok()) {
        EXPECT_EQ(Digest(*bytes), blob.digest());
      } else {
        EXPECT_TRUE(absl::IsNotFound(bytes.status())) << bytes.status();
        all = false;
      }
    }
    return all;
  }
  bool IsNamed(const std::string& key) const {
    for (const std::string& text : lost_) {
      if (absl::StrContains(text, key)) return true;
    }
    return false;
  }

  const std::string folder_;
  size_t found_ = 0;  // pieces of damage that the store told of
  bool ledger_is_whole_ = false;
  std::vector<std::string> lost_;
};

// What a harmed copy of the folder makes of it.
void TryHarm(const std::string& sound, const std::string& file, const std::string& what, const Harm& harm) {
  SCOPED_TRACE(absl::StrCat(file, ": ", what));
  const std::string copy = testing::TempDir() + "/harmed";
  fs::remove_all(copy);
  fs::copy(sound, copy, fs::copy_options::recursive);
  harm(copy + "/" + file);
  Damaged(copy).Check();
  // Once said and repaired, it is over.
  auto again = cache::OpenStore(copy + "/store", Small(), [](const std::string&) {});
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->damage.empty()) << testing::PrintToString(again->damage);
  again->store.reset();
  fs::remove_all(copy);
}

std::vector<std::string> FilesOf(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name != "LOCK" && !absl::StartsWith(name, "LOG")) {
      files.push_back(fs::relative(entry.path(), folder).string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void HarmEveryFile(const std::string& sound) {
  const char* text = std::getenv("PREHEAT_FAULT_FLIPS");
  const int flips = text == nullptr ? 2 : std::atoi(text);
  std::mt19937_64 random(7);
  for (const std::string& file : FilesOf(sound)) {
    const size_t size = fs::file_size(sound + "/" + file);
    for (int i = 0; i < flips && size > 0; ++i) {
      const size_t at = random() % size;
      TryHarm(sound, file, absl::StrCat("a bit of byte ", at, " of ", size),
              [&](const std::string& path) { FlipAt(path, at); });
    }
    TryHarm(sound, file, "half of it", [&](const std::string& path) { fs::resize_file(path, size / 2); });
    TryHarm(sound, file, "gone", [](const std::string& path) { fs::remove(path); });
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Damage, WhenAllIsInTheLog) {
  const std::string folder = testing::TempDir() + "/all_in_log";
  fs::remove_all(folder);
  Fill(folder, 1, {});
  HarmEveryFile(folder);
}

TEST(Damage, WhenAllIsInFiles) {
  const std::string folder = testing::TempDir() + "/all_in_files";
  fs::remove_all(folder);
  Fill(folder, 20, Small());
  // Opening writes what is in the log to files.
  ASSERT_TRUE(cache::OpenStore(folder + "/store", Small(), [](const std::string&) {}).ok());
  HarmEveryFile(folder);
}

TEST(Damage, AnEmptyFolderIsAnEmptyStore) {
  const std::string folder = testing::TempDir() + "/nothing";
  fs::remove_all(folder);
  auto opened = cache::OpenStore(folder, {}, [](const std::string&) {});
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->damage.empty());
  EXPECT_FALSE(opened->rebuilt);
}

TEST(Damage, ARebuildThatWasCutShortIsFinished) {
  const std::string folder = testing::TempDir() + "/swapped";
  for (const char* ending : {"", ".new", ".damaged"}) fs::remove_all(folder + ending);
  Fill(folder, 1, {});
  fs::rename(folder + "/store", folder + "/store.new");  // between the two renames
  auto opened = cache::OpenStore(folder + "/store", {}, [](const std::string&) {});
  ASSERT_TRUE(opened.ok()) << opened.status();
  ArtifactIndex index(*opened->store, cache::SystemNowMs);
  EXPECT_EQ(index.List("")->size(), static_cast<size_t>(kArtifacts));
}

}  // namespace
}  // namespace preheat::faults
