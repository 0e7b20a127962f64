#include "cache/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cache/artifact_index.h"
#include "cache/memory_store.h"
#include "cache/records.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"

namespace preheat::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

const std::string kA = Digest("a"), kB = Digest("b"), kManifest = Digest("manifest");

class LedgerTest : public testing::Test {
 protected:
  LedgerTest() { std::filesystem::remove(path_); }
  std::unique_ptr<Ledger> Open() { return *Ledger::Open(path_); }
  std::string Text() {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const std::string path_ = testing::TempDir() + "/ledger";
};

TEST_F(LedgerTest, RemembersWhatWasAddedAndNotRemoved) {
  {
    auto ledger = Open();
    ASSERT_TRUE(ledger->Add(kA, 1, kManifest).ok());
    ASSERT_TRUE(ledger->Add(kA, 2, kManifest).ok());
    ASSERT_TRUE(ledger->Add(kB, 1, kManifest).ok());
    ASSERT_TRUE(ledger->Remove(kA).ok());
    ASSERT_TRUE(ledger->Add(kA, 3, kManifest).ok());
  }
  auto ledger = Open();
  EXPECT_THAT(ledger->entries(),
              testing::UnorderedElementsAre(Pair(Pair(kA, 3), kManifest), Pair(Pair(kB, 1), kManifest)));
  EXPECT_EQ(ledger->damaged_lines(), 0);
}

TEST_F(LedgerTest, DamageCostsLines) {
  {
    auto ledger = Open();
    for (uint32_t i = 1; i <= 3; ++i) ASSERT_TRUE(ledger->Add(kA, i, kManifest).ok());
  }
  std::string text = Text();
  text[text.find('\n') + 10] ^= 1;  // in the second line
  std::ofstream(path_) << text << "+ torn";
  auto ledger = Open();
  EXPECT_THAT(ledger->entries(), ElementsAre(Pair(Pair(kA, 1), kManifest), Pair(Pair(kA, 3), kManifest)));
  EXPECT_EQ(ledger->damaged_lines(), 2);
  ASSERT_TRUE(ledger->Replace({{{kB, 7}, kManifest}}).ok());
  ASSERT_TRUE(ledger->Add(kB, 8, kManifest).ok());
  auto again = Open();
  EXPECT_THAT(again->entries(), ElementsAre(Pair(Pair(kB, 7), kManifest), Pair(Pair(kB, 8), kManifest)));
  EXPECT_EQ(again->damaged_lines(), 0);
}

TEST_F(LedgerTest, ATornLineCostsNoOther) {
  ASSERT_TRUE(Open()->Add(kA, 1, kManifest).ok());
  std::ofstream(path_, std::ios::app) << "+ torn";
  {
    auto ledger = Open();
    for (uint32_t i = 2; i <= 3; ++i) ASSERT_TRUE(ledger->Add(kA, i, kManifest).ok());
  }
  auto ledger = Open();
  EXPECT_EQ(ledger->entries().size(), 3u);
  EXPECT_EQ(ledger->damaged_lines(), 1);
  EXPECT_EQ(Text().find("\n\n"), std::string::npos);
}

// The disk was full in the middle of a line.
TEST_F(LedgerTest, GoesOnAfterAWriteThatFailed) {
  auto ledger = Open();
  ASSERT_TRUE(ledger->Add(kA, 1, kManifest).ok());
  const rlimit small = {std::filesystem::file_size(path_) + 10, RLIM_INFINITY};
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status failed = ledger->Add(kA, 2, kManifest);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(GetError(failed).kind, "store_failed");
  ASSERT_TRUE(ledger->Add(kA, 3, kManifest).ok());
  auto again = Open();
  EXPECT_THAT(again->entries(), ElementsAre(Pair(Pair(kA, 1), kManifest), Pair(Pair(kA, 3), kManifest)));
  EXPECT_EQ(again->damaged_lines(), 1);
}

TEST_F(LedgerTest, NamesAFileThatCannotBe) {
  auto ledger = Ledger::Open("/proc/nowhere/ledger");
  ASSERT_FALSE(ledger.ok());
  EXPECT_EQ(GetError(ledger.status()).where, "/proc/nowhere/ledger");
}

Publication Example(const std::string& name) {
  Publication publication;
  publication.manifest.set_key(Digest(name));
  publication.manifest.mutable_plan()->set_digest(Digest(name + " plan"));
  publication.manifest.mutable_plan()->set_size_bytes(static_cast<int64_t>(name.size()) + 5);
  publication.blobs[Digest(name + " plan")] = name + " plan";
  return publication;
}

TEST_F(LedgerTest, AnIndexMakesAgainWhatItCanAndNamesTheRest) {
  MemoryStore store;
  {
    auto ledger = Open();
    ArtifactIndex index(store, SystemNowMs, ledger.get());
    for (const char* name : {"a", "b", "c", "d"}) ASSERT_TRUE(index.Publish(Example(name)).ok());
    ASSERT_TRUE(*index.Remove(Digest("d")));
  }
  auto ledger = Open();
  const std::string manifest_of_b = ledger->entries().at({kB, 1});
  ASSERT_TRUE(store
                  .Write({{Table::kGeneration, GenerationKey(kA, 1), std::nullopt},
                          {Table::kGeneration, GenerationKey(kB, 1), std::nullopt},
                          {Table::kBlob, manifest_of_b, std::nullopt}},
                         Durability::kSynced)
                  .ok());
  ArtifactIndex index(store, SystemNowMs, ledger.get());
  auto reconciled = index.Reconcile();
  ASSERT_TRUE(reconciled.ok()) << reconciled.status();
  EXPECT_EQ(reconciled->remade, 1);
  EXPECT_THAT(reconciled->lost, ElementsAre(testing::HasSubstr(kB)));
  EXPECT_TRUE(index.Lookup(kA, 0)->has_value());
  EXPECT_EQ(Open()->entries().size(), 2u);  // a and c
}

}  // namespace
}  // namespace preheat::cache
