#include "autotune/kernel_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace preheat::autotune {
namespace {

using Objects = std::map<std::string, std::string>;

TEST(KernelCache, AsksTheStoreOnceAndTellsItOfWhatIsNew) {
  std::vector<std::vector<std::string>> asked;
  Objects published;
  KernelStore behind;
  behind.lookup = [&](const std::vector<std::string>& keys) {
    asked.push_back(keys);
    return Objects{{"old", "o"}};
  };
  behind.publish = [&](const Objects& objects) { published = objects; };
  const KernelStore store = KernelCache(behind).AsStore();
  EXPECT_EQ(store.lookup({"old", "new"}), (Objects{{"old", "o"}}));
  store.publish({{"new", "n"}});
  EXPECT_EQ(published, (Objects{{"new", "n"}}));
  EXPECT_EQ(store.lookup({"old", "new"}), (Objects{{"old", "o"}, {"new", "n"}}));
  EXPECT_EQ(asked, (std::vector<std::vector<std::string>>{{"old", "new"}}));
}

TEST(KernelCache, NeedsNoStore) {
  const KernelStore store = KernelCache({}).AsStore();
  EXPECT_TRUE(store.lookup({"a"}).empty());
  store.publish({{"a", "1"}});
  EXPECT_EQ(store.lookup({"a"}), (Objects{{"a", "1"}}));
}

}  // namespace
}  // namespace preheat::autotune
