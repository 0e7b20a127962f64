#include "client/cpp/local_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "compiler/support/digest.h"

namespace preheat {
namespace {

class LocalCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/local_cache_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void Overwrite(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::trunc) << bytes; }

  std::string dir_;
};

TEST_F(LocalCacheTest, GivesBackWhatWasWritten) {
  const LocalCache cache(dir_);
  const std::string bytes = "some\0bytes", digest = Digest(bytes);
  EXPECT_FALSE(cache.HasBlob(digest));
  cache.WriteBlob(digest, bytes);
  EXPECT_TRUE(cache.HasBlob(digest));
  EXPECT_EQ(cache.ReadBlob(digest), bytes);
  EXPECT_EQ(LocalCache(dir_).ReadBlob(digest), bytes);
}

TEST_F(LocalCacheTest, ChangedBytesAreAbsentAndRemoved) {
  const LocalCache cache(dir_);
  const std::string digest = Digest("right");
  cache.WriteBlob(digest, "right");
  Overwrite(dir_ + "/blobs/" + digest.substr(0, 2) + "/" + digest, "wrong");
  EXPECT_EQ(cache.ReadBlob(digest), std::nullopt);
  EXPECT_FALSE(cache.HasBlob(digest));
}

TEST_F(LocalCacheTest, ResultsKeepAllButBlobsAndSurviveNoEdit) {
  const LocalCache cache(dir_);
  v1::CompileResult result;
  result.set_key("k");
  (*result.mutable_blobs())["d"] = "bytes";
  const std::string alias = Digest("request");
  cache.WriteResult(alias, result);
  ASSERT_TRUE(cache.ReadResult(alias).has_value());
  EXPECT_EQ(cache.ReadResult(alias)->key(), "k");
  EXPECT_TRUE(cache.ReadResult(alias)->blobs().empty());
  Overwrite(dir_ + "/results/" + alias, "torn");
  EXPECT_FALSE(cache.ReadResult(alias).has_value());
}

TEST_F(LocalCacheTest, FoldersAreTheOwnersAlone) {
  LocalCache(dir_).WriteBlob(Digest("x"), "x");
  struct stat info;
  ASSERT_EQ(stat(dir_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(LocalCacheTest, ANameThatIsNoDigestTouchesNoFile) {
  const LocalCache cache(dir_);
  cache.WriteBlob("../../escape", "x");
  EXPECT_EQ(cache.ReadBlob("../../escape"), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(dir_));
}

TEST_F(LocalCacheTest, OffMeansAbsent) {
  const LocalCache cache("");
  cache.WriteBlob(Digest("x"), "x");
  EXPECT_FALSE(cache.HasBlob(Digest("x")));
  EXPECT_EQ(cache.CodeDir(), "");
}

}  // namespace
}  // namespace preheat
