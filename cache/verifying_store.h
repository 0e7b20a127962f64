#ifndef PREHEAT_CACHE_VERIFYING_STORE_H_
#define PREHEAT_CACHE_VERIFYING_STORE_H_

#include <functional>
#include <memory>

#include "cache/store.h"

namespace preheat::cache {

// Holds every blob that is read against its digest, because disks and people change bytes. One that does not match, or
// that the inner store answers with DATA_LOSS, is moved to quarantine, told to `on_corrupt` (on the reading thread),
// and absent from then on: a miss, so it is compiled again. Place it nearest to the disk.
std::unique_ptr<Store> NewVerifyingStore(std::unique_ptr<Store> inner,
                                         std::function<void(absl::string_view digest)> on_corrupt);

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_VERIFYING_STORE_H_
