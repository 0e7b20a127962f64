#ifndef PREHEAT_SERVER_DURABLE_STATE_H_
#define PREHEAT_SERVER_DURABLE_STATE_H_

#include <memory>
#include <string>
#include <vector>

#include "cache/artifact_index.h"
#include "cache/kernel_index.h"
#include "cache/ledger.h"
#include "cache/store.h"
#include "server/metrics.h"

namespace preheat::server {

// All that a server keeps under its data folder, and what opening it has found. Members are destroyed from the last to
// the first, as they lean on each other.
struct DurableState {
  std::unique_ptr<cache::Store> store;
  std::unique_ptr<cache::Ledger> ledger;
  std::unique_ptr<cache::ArtifactIndex> index;
  std::unique_ptr<cache::KernelIndex> kernels;
  std::vector<std::string> notes;  // what was damaged, what is lost, what was done: for the status page; logged already
};

// Opens it whatever happened to the disk (cache/open_store.h), counting what is corrupt, now and later, in `metrics`,
// which must outlive the state. Errors as of OpenStore.
absl::StatusOr<DurableState> OpenDurableState(const std::string& data_dir, Metrics& metrics);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_DURABLE_STATE_H_
