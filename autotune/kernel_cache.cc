#include "autotune/kernel_cache.h"

#include <utility>
#include <vector>

namespace preheat::autotune {

KernelStore KernelCache::AsStore() const {
  KernelStore store;
  store.lookup = [behind = behind_, known = known_](const std::vector<std::string>& keys) {
    std::map<std::string, std::string> found;
    std::vector<std::string> missing;
    for (const std::string& key : keys) {
      auto it = known->find(key);
      it != known->end() ? static_cast<void>(found.insert(*it)) : missing.push_back(key);
    }
    if (missing.empty() || !behind->lookup) return found;
    std::map<std::string, std::string> more = behind->lookup(missing);
    known->insert(more.begin(), more.end());
    found.merge(more);
    return found;
  };
  store.publish = [behind = behind_, known = known_](const std::map<std::string, std::string>& objects) {
    known->insert(objects.begin(), objects.end());
    if (behind->publish) behind->publish(objects);
  };
  return store;
}

}  // namespace preheat::autotune
