#include "cache/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cache/memory_store.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"

namespace preheat::cache {
namespace {

v1::BlobRef Add(Publication& publication, const std::string& bytes) {
  v1::BlobRef ref;
  ref.set_digest(Digest(bytes));
  ref.set_size_bytes(static_cast<int64_t>(bytes.size()));
  publication.blobs[ref.digest()] = bytes;
  return ref;
}

Publication Example(const std::string& name, const std::string& variant = "") {
  Publication publication;
  publication.manifest.set_key(Digest(name));
  publication.manifest.set_target("cpu:x86-64-v3");
  *publication.manifest.mutable_plan() = Add(publication, name + variant + " plan");
  *publication.manifest.add_code() = Add(publication, name + variant + " code");
  *publication.manifest.add_code() = Add(publication, std::string(3 << 20, 's'));  // shared; several pieces
  publication.key_fields = {{"ir", name}};
  publication.name = name;
  return publication;
}

class ArchiveTest : public testing::Test {
 protected:
  MemoryStore from_store_, to_store_;
  ArtifactIndex from_{from_store_, SystemNowMs}, to_{to_store_, SystemNowMs};
  const std::string path_ = testing::TempDir() + "/archive";

  void SetUp() override {
    ASSERT_TRUE(from_.Publish(Example("a")).ok());
    ASSERT_TRUE(from_.Publish(Example("a", " again")).ok());
    ASSERT_TRUE(from_.Publish(Example("b")).ok());
  }
  std::string Export(const std::vector<std::string>& keys = {}) {
    std::string archive;
    EXPECT_TRUE(WriteArchive(from_, keys, [&](absl::string_view bytes) {
                  EXPECT_LE(bytes.size(), size_t{1} << 20);
                  archive.append(bytes.data(), bytes.size());
                  return absl::OkStatus();
                }).ok());
    return archive;
  }
  absl::StatusOr<Imported> Import(const std::string& archive) {
    std::ofstream(path_, std::ios::binary) << archive;
    return ReadArchive(to_, path_);
  }
  std::string Refusal(const std::string& archive) {
    auto imported = Import(archive);
    if (imported.ok()) return "imported";
    EXPECT_EQ(GetError(imported.status()).kind, "bad_archive");
    EXPECT_TRUE(to_.Keys()->empty()) << "nothing is half imported";
    return std::string(imported.status().message());
  }
};

TEST_F(ArchiveTest, CarriesGenerationsOver) {
  v1::Evidence evidence;
  evidence.set_state(v1::Evidence::OK);
  ASSERT_TRUE(from_.AddEvidence(Digest("a"), 2, evidence).ok());
  ASSERT_TRUE(from_.pins().Pin(Digest("a"), "job", 1).ok());
  const std::string archive = Export();
  EXPECT_LT(archive.size(), size_t{4} << 20) << "the shared object is there once";
  auto imported = Import(archive);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->generations, 3);
  EXPECT_EQ(imported->blobs, 7);
  for (const char* name : {"a", "b"}) {
    auto there = *from_.Lookup(Digest(name), 0), here = *to_.Lookup(Digest(name), 0);
    ASSERT_TRUE(here);
    EXPECT_EQ(here->manifest().SerializeAsString(), there->manifest().SerializeAsString());
    EXPECT_EQ(*to_.blobs().Read(here->manifest().plan().digest()),
              *from_.blobs().Read(there->manifest().plan().digest()));
    EXPECT_EQ(to_.DescribeKey(Digest(name))->name(), name);
  }
  EXPECT_TRUE(to_.Lookup(Digest("a"), 1)->has_value());
  EXPECT_FALSE(*to_.pins().IsPinned(Digest("a"))) << "pins are a cluster's own";
}

TEST_F(ArchiveTest, AnImportAgainAddsNothing) {
  const std::string archive = Export();
  ASSERT_TRUE(Import(archive).ok());
  auto again = Import(archive);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->generations, 0);
  EXPECT_EQ(again->blobs, 0);
}

TEST_F(ArchiveTest, AForeignGenerationGetsTheNextNumber) {
  ASSERT_TRUE(to_.Publish(Example("a", " own")).ok());
  ASSERT_TRUE(Import(Export()).ok());
  EXPECT_EQ(to_.ServableGenerations(Digest("a"))->size(), 3u);
  EXPECT_EQ(*to_.blobs().Read((*to_.Lookup(Digest("a"), 1))->manifest().plan().digest()), "a own plan");
}

TEST_F(ArchiveTest, OneKey) {
  auto imported = Import(Export({Digest("b")}));
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported->generations, 1);
  EXPECT_FALSE(to_.Lookup(Digest("a"), 0)->has_value());
  absl::Status unknown = WriteArchive(from_, {Digest("c")}, [](absl::string_view) { return absl::OkStatus(); });
  EXPECT_EQ(GetError(unknown).kind, "unknown_key");
}

TEST_F(ArchiveTest, RefusesWhatIsCutShort) {
  const std::string archive = Export();
  for (size_t length : {size_t{0}, size_t{5}, size_t{18}, size_t{20}, size_t{27}, size_t{40}, archive.size() / 2,
                        archive.size() - 33, archive.size() - 1}) {
    EXPECT_THAT(Refusal(archive.substr(0, length)), testing::HasSubstr("ends early")) << length;
  }
}

TEST_F(ArchiveTest, RefusesWhatWasChanged) {
  const std::string archive = Export();
  for (size_t at = 0; at < archive.size(); at += archive.size() / 60) {
    std::string changed = archive;
    changed[at] ^= 0x20;
    EXPECT_NE(Refusal(changed), "imported") << at;
  }
  EXPECT_THAT(Refusal(archive + "x"), testing::HasSubstr("follows the end"));
}

TEST_F(ArchiveTest, RefusesWhatIsNoArchive) {
  EXPECT_THAT(Refusal("PK\3\4 something else that is long enough"), testing::HasSubstr("no archive"));
  std::string huge = "PREHEAT ARCHIVE 1\nb";
  huge += std::string(8, '\xff');
  EXPECT_THAT(Refusal(huge), testing::HasSubstr("longer than any"));
  EXPECT_THAT(Refusal("PREHEAT ARCHIVE 1\nq" + std::string(8, '\0')), testing::HasSubstr("unknown record"));
  EXPECT_EQ(GetError(ReadArchive(to_, "/nowhere/at/all").status()).kind, "bad_archive");
}

}  // namespace
}  // namespace preheat::cache
