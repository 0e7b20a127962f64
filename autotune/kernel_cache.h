#ifndef PREHEAT_AUTOTUNE_KERNEL_CACHE_H_
#define PREHEAT_AUTOTUNE_KERNEL_CACHE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "compiler/compile.h"

namespace preheat::autotune {

// Kernels that were compiled for one tuning, in front of a store that may be far or none: its programs have most of
// their kernels in common. For one thread at a time; what it gives may outlive it.
class KernelCache {
 public:
  explicit KernelCache(KernelStore behind) : behind_(std::make_shared<KernelStore>(std::move(behind))) {}
  KernelStore AsStore() const;

 private:
  std::shared_ptr<const KernelStore> behind_;
  std::shared_ptr<std::map<std::string, std::string>> known_ = std::make_shared<std::map<std::string, std::string>>();
};

}  // namespace preheat::autotune

#endif  // PREHEAT_AUTOTUNE_KERNEL_CACHE_H_
