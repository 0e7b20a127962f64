#include "compiler/capture/guard_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace preheat::capture {
namespace {

std::string Guard(absl::string_view text) {
  auto size_of = [](const std::string& name, int64_t axis) -> std::optional<ir::Expr> {
    if (name != "x") return std::nullopt;
    return ir::Expr::Symbol(absl::StrCat("d", axis));
  };
  std::optional<std::vector<ir::Expr>> guards = ParseGuard(text, size_of);
  if (!guards) return "?";
  return absl::StrJoin(*guards, "; ", [](std::string* out, const ir::Expr& e) { out->append(e.ToString()); });
}

std::string Text(absl::string_view expr) { return ir::Expr::Parse(expr)->ToString(); }

TEST(GuardText, ReadsComparisonsOfSizes) {
  EXPECT_EQ(Guard("L['x'].size()[1] <= 64"), Text("64 - d1"));
  EXPECT_EQ(Guard("2 * L['x'].size()[0] < L['x'].size()[1] + 3"), Text("d1 - 2*d0 + 2"));
  EXPECT_EQ(Guard("(L['x'].size()[0] // 4) > 1"), Text("floordiv(d0, 4) - 2"));
  EXPECT_EQ(Guard("L['x'].size()[0] % 8 == 0"), absl::StrCat(Text("mod(d0, 8)"), "; ", Text("0 - mod(d0, 8)")));
}

TEST(GuardText, LeavesOutWhatItDoesNotKnow) {
  for (const char* text : {"", "L['y'].size()[0] > 1", "L['x'].size()[0] != 1", "L['x'].stride()[0] == 1",
                           "L['x'].size()[0", "not L['x'].size()[0] == 1", "L['x'].size()[0] // 0 == 1",
                           "1 <= L['x'].size()[0] <= 3", "281474976710656 * 281474976710656 > L['x'].size()[0]"}) {
    EXPECT_EQ(Guard(text), "?") << text;
  }
}

}  // namespace
}  // namespace preheat::capture
