#include "server/identity.h"

#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"

namespace preheat::server {
namespace {

class TokensTest : public testing::Test {
 protected:
  const std::string path_ =
      testing::TempDir() + "/tokens_" + testing::UnitTest::GetInstance()->current_test_info()->name();
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  std::string KindOf(const std::string& text) {
    Write(text);
    return GetError(Tokens::Read(path_).status()).where;
  }
};

TEST_F(TokensTest, KnowsWhoShowsAToken) {
  Write(absl::StrCat("# people\n\ntrainer research user ", Digest("s3cret"), "\n\tops  all\tadmin ", Digest("root"),
                     "\n"));
  auto tokens = Tokens::Read(path_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  auto trainer = (*tokens)->Check("Bearer s3cret");
  ASSERT_TRUE(trainer.ok());
  EXPECT_EQ(trainer->name, "trainer");
  EXPECT_EQ(trainer->name_space, "research");
  EXPECT_FALSE(trainer->admin);
  EXPECT_TRUE((*tokens)->Check("Bearer root")->admin);
  EXPECT_EQ(GetError((*tokens)->Check("").status()).kind, "no_token");
  EXPECT_EQ(GetError((*tokens)->Check("Basic s3cret").status()).kind, "no_token");
  EXPECT_EQ(GetError((*tokens)->Check("Bearer s3cre").status()).kind, "unknown_token");
  EXPECT_EQ(GetError((*tokens)->Check(absl::StrCat("Bearer ", Digest("s3cret"))).status()).kind, "unknown_token");
  EXPECT_EQ((*tokens)->Check("").status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(TokensTest, NamesTheLineThatIsWrong) {
  EXPECT_EQ(KindOf("\na b user\n"), path_ + ":2");
  EXPECT_EQ(KindOf(absl::StrCat("a b owner ", Digest("t"))), path_ + ":1");
  EXPECT_EQ(KindOf("a b user t0ken"), path_ + ":1");
  EXPECT_EQ(KindOf(absl::StrCat("a b user ", Digest("t"), "\nc d user ", Digest("t"))), path_ + ":2");
  EXPECT_EQ(GetError(Tokens::Read("/nowhere/tokens").status()).kind, "invalid_config");
}

TEST_F(TokensTest, IsReadAgainAndKeepsWhatItHasWhenThatFails) {
  Write(absl::StrCat("a b user ", Digest("one")));
  auto tokens = *Tokens::Read(path_);
  Write(absl::StrCat("a b user ", Digest("two")));
  ASSERT_TRUE(tokens->Refresh().ok());
  EXPECT_FALSE(tokens->Check("Bearer one").ok());
  EXPECT_TRUE(tokens->Check("Bearer two").ok());
  Write("nonsense");
  EXPECT_FALSE(tokens->Refresh().ok());
  EXPECT_TRUE(tokens->Check("Bearer two").ok());
}

}  // namespace
}  // namespace preheat::server
