#ifndef PREHEAT_SERVER_SERVICES_H_
#define PREHEAT_SERVER_SERVICES_H_

#include <chrono>
#include <functional>
#include <string>

#include "cache/artifact_index.h"
#include "server/admission.h"
#include "server/byte_budget.h"
#include "server/collect_garbage.h"
#include "server/history.h"
#include "server/inflight_table.h"
#include "server/metrics.h"
#include "server/negative_cache.h"
#include "server/pool.h"
#include "server/quotas.h"
#include "server/tuning_state.h"
#include "server/work_queue.h"

namespace preheat::server {

// What a request needs of the server. Everything in it is safe from several threads at once and outlives every
// request and task.
struct Services {
  cache::ArtifactIndex& index;
  InflightTable& inflight;
  Pool& pool;
  NegativeCache& negative;
  Admission& admission;
  Quotas& quotas;
  Metrics& metrics;
  History& history;
  WorkQueue& replies;
  ByteBudget& outgoing;  // blobs that were read and have not left: a reader that does not read must not fill the memory
  TuningState& tuning;
  bool verify = true;         // new artifacts, after the reply
  bool verify_first = false;  // or before it
  GarbagePolicy garbage;
  std::string spool_folder;                 // for archives that are being imported; emptied at each start
  std::chrono::milliseconds tune_after{0};  // how long work in the background waits for the job that has asked to run
};

// Who asks: told how far it is, and asked whether it still waits.
struct Caller {
  std::function<void(const v1::Progress&)> progress;
  std::function<bool()> cancelled;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_SERVICES_H_
