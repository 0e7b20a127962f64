#include "server/durable_state.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/clock.h"
#include "cache/metrics_store.h"
#include "cache/open_store.h"
#include "cache/verifying_store.h"
#include "compiler/support/status_macros.h"

namespace preheat::server {
namespace {

constexpr size_t kMostNotes = 100;  // on the status page; the log has all

void Note(DurableState& state, const std::string& text) {
  spdlog::warn("store: {}", text);
  if (state.notes.size() < kMostNotes) state.notes.push_back(text);
}

// Decorators from the disk outwards: what is read is verified, then counted.
std::unique_ptr<cache::Store> Decorate(std::unique_ptr<cache::Store> disk, Metrics& metrics) {
  auto verifying = cache::NewVerifyingStore(std::move(disk), [&metrics](absl::string_view digest) {
    spdlog::error("blob {} is corrupt: quarantined", std::string(digest));
    metrics.CountCorrupt();
  });
  return cache::NewMetricsStore(std::move(verifying), [&metrics](cache::Direction direction, size_t bytes) {
    metrics.CountBlobBytes(direction == cache::Direction::kRead ? "read" : "written", bytes);
  });
}

absl::Status Reconcile(DurableState& state, Metrics& metrics) {
  if (int64_t damaged = state.ledger->damaged_lines(); damaged > 0) {
    metrics.CountCorrupt();
    Note(state, absl::StrCat(damaged, " lines of the ledger are damaged: what they named is not missed if it is lost"));
  }
  ASSIGN_OR_RETURN(cache::ArtifactIndex::Reconciled reconciled, state.index->Reconcile());
  if (reconciled.remade > 0)
    Note(state, absl::StrCat(reconciled.remade, " generations were made again from manifests"));
  for (const std::string& lost : reconciled.lost) {
    metrics.CountCorrupt();
    Note(state, lost);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DurableState> OpenDurableState(const std::string& data_dir, Metrics& metrics) {
  DurableState state;
  ASSIGN_OR_RETURN(cache::OpenedStore opened, cache::OpenStore(data_dir + "/store", {}, [](const std::string& text) {
                     spdlog::warn("{}", text);
                   }));
  for (const std::string& damage : opened.damage) {
    metrics.CountCorrupt();
    Note(state, damage);
  }
  for (const std::string& remark : opened.remarks) Note(state, remark);
  state.store = Decorate(std::move(opened.store), metrics);
  ASSIGN_OR_RETURN(state.ledger, cache::Ledger::Open(data_dir + "/ledger"));
  state.index = std::make_unique<cache::ArtifactIndex>(*state.store, cache::SystemNowMs, state.ledger.get());
  state.kernels = std::make_unique<cache::KernelIndex>(*state.store, state.index->blobs(), cache::SystemNowMs);
  RETURN_IF_ERROR(Reconcile(state, metrics));
  return state;
}

}  // namespace preheat::server
