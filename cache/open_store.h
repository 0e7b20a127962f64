#ifndef PREHEAT_CACHE_OPEN_STORE_H_
#define PREHEAT_CACHE_OPEN_STORE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/rocksdb_store.h"

namespace preheat::cache {

struct OpenedStore {
  std::unique_ptr<Store> store;
  std::vector<std::string> damage;   // a sentence each: what did not check; empty when all did
  std::vector<std::string> remarks;  // what was done about it
  bool rebuilt = false;              // from what could be read of a damaged one, which was set aside
};

// Opens the store in the folder whatever happened to it, and says what it gave up. In this order, as far as needed:
//   1. as it is;
//   2. with CURRENT, the one-line file that names the index of files, written anew;
//   3. without the records of the write-ahead log that cannot be read (the torn end of a crash is among them: such a
//      record was never acknowledged);
//   4. rebuilt: all that can be read goes into a new store (salvage.h), and the damaged folder is kept beside it as
//      FOLDER.damaged until the next such event.
// A crash at any point of it leaves a folder that opens. `tell` hears about the steps that may take long, from the
// calling thread. Errors as of OpenRocksdbStore, but "corrupt_store" only if not even a new store can be read.
absl::StatusOr<OpenedStore> OpenStore(const std::string& folder, const RocksdbOptions& options,
                                      const std::function<void(const std::string&)>& tell);

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_OPEN_STORE_H_
