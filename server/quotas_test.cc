#include "server/quotas.h"

#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/retry_after.h"

namespace preheat::server {
namespace {

class QuotasTest : public testing::Test {
 protected:
  const std::string path_ =
      testing::TempDir() + "/quotas_" + testing::UnitTest::GetInstance()->current_test_info()->name();
  std::map<std::string, int64_t> stored_;

  void Write(const std::string& text) { std::ofstream(path_) << text; }
  absl::StatusOr<std::unique_ptr<Quotas>> Read(const std::string& text) {
    Write(text);
    return Quotas::Read(path_, [this] { return stored_; });
  }
  static std::string KindOf(const absl::StatusOr<std::shared_ptr<void>>& entered) {
    return entered.ok() ? "ok" : GetError(entered.status()).kind;
  }
};

TEST_F(QuotasTest, CountsCompilesUnderWay) {
  auto quotas = Read("# who  compiles  bytes\n\nresearch 2 -\n* 1 -\n");
  ASSERT_TRUE(quotas.ok()) << quotas.status();
  auto first = (*quotas)->EnterCompile("research"), second = (*quotas)->EnterCompile("research");
  ASSERT_TRUE(first.ok() && second.ok());
  const auto third = (*quotas)->EnterCompile("research");
  EXPECT_EQ(KindOf(third), "quota_compiles");
  EXPECT_TRUE(GetRetryAfter(third.status()).has_value());
  auto other = (*quotas)->EnterCompile("other");
  EXPECT_EQ(KindOf(other), "ok");
  EXPECT_EQ(KindOf((*quotas)->EnterCompile("other")), "quota_compiles");
  EXPECT_EQ(KindOf((*quotas)->EnterCompile("another")), "ok") << "each has its own";
  first->reset();
  EXPECT_EQ(KindOf((*quotas)->EnterCompile("research")), "ok");
}

TEST_F(QuotasTest, CountsBytesOfArtifacts) {
  stored_ = {{"research", int64_t{2} << 30}};
  auto quotas = Read("research - 2G\nroomy - 3G\n");
  ASSERT_TRUE(quotas.ok()) << quotas.status();
  const auto full = (*quotas)->EnterCompile("research");
  EXPECT_EQ(KindOf(full), "quota_bytes");
  EXPECT_FALSE(GetRetryAfter(full.status()).has_value()) << "waiting does not help";
  EXPECT_EQ(KindOf((*quotas)->EnterCompile("roomy")), "ok");
  EXPECT_EQ(KindOf((*quotas)->EnterCompile("nobody")), "ok") << "no line, no limit";
}

TEST_F(QuotasTest, NamesTheLineThatIsWrong) {
  for (const char* wrong : {"a 1", "a 1 2 3", "a x 1", "a 1G 1", "a -1 1", "a 1 1P", "a 1 9999999999G", "a 1 G"}) {
    const absl::Status status = Read(absl::StrCat("# first\n", wrong, "\n")).status();
    EXPECT_EQ(GetError(status).kind, "invalid_config") << wrong;
    EXPECT_EQ(GetError(status).where, path_ + ":2") << wrong;
  }
  EXPECT_EQ(GetError(Read("a 1 1\na 2 2\n").status()).where, path_ + ":2");
  EXPECT_EQ(GetError(Quotas::Read("/nowhere/quotas", nullptr).status()).kind, "invalid_config");
  EXPECT_TRUE((*Quotas::Read("", nullptr))->EnterCompile("anybody").ok());
}

TEST_F(QuotasTest, IsReadAgainAndKeepsWhatItHasWhenThatFails) {
  auto quotas = *Read("a 0 -");
  EXPECT_FALSE(quotas->EnterCompile("a").ok());
  Write("nonsense");
  EXPECT_FALSE(quotas->Refresh().ok());
  EXPECT_FALSE(quotas->EnterCompile("a").ok());
  Write("a 1 -");
  EXPECT_TRUE(quotas->Refresh().ok());
  EXPECT_TRUE(quotas->EnterCompile("a").ok());
}

}  // namespace
}  // namespace preheat::server
