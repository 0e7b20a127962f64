#ifndef PREHEAT_AUTOTUNE_TUNE_H_
#define PREHEAT_AUTOTUNE_TUNE_H_

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autotune/rounds.h"
#include "autotune/tuning.h"
#include "compiler/compile.h"
#include "compiler/reference/inputs/host_tensor.h"
#include "kernels/device/device.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat::autotune {

struct TuneOptions {
  CompileOptions compile;                     // `schedules` is the tuner's
  std::vector<reference::HostTensor> inputs;  // to run on: random data, sizes included
  std::map<std::string, int64_t> symbols;     // the sizes of those inputs
  preheat_extern_handler extern_handler = nullptr;
  Device* gpu = nullptr;       // where a GPU's program is measured, which the caller knows to be quiet
  WatchFn watch;               // of that GPU: an error ends tuning with it. May be null
  std::string device = "cpu";  // by DeviceLock's name
  std::string machine;         // "AMD EPYC 7R13, 2 threads": records are of one machine model
  std::string toolchain;       // and of one compiler
  // Records of sites that were measured before, by key; may be null.
  std::function<std::map<std::string, std::string>(const std::vector<std::string>& keys)> lookup_records;
  std::function<void(const std::string& line)> log;             // what people may want to know; may be null
  std::chrono::milliseconds budget = std::chrono::seconds(10);  // for timing candidates, and again for confirming
  int64_t memory_bytes = 0;  // that tensors may take, of those given here and of those made; 0: any number
  std::chrono::milliseconds patience = std::chrono::seconds(0);  // how long to wait for a quiet machine, in all
};

struct TuneResult {
  Artifact artifact;  // under the schedules chosen: the default's own where nothing is proved to be faster
  Tuning tuning;
  std::map<std::string, std::string> records;  // new ones, by key
};

// Measures up to 8 schedules a site and keeps the fastest that is proved to be faster than the default.
//
// All sites are measured at once, in place: programs in which every site has one of its candidates or the default,
// drawn by lot, are run in turn, in an order that changes from round to round, and each step is timed where it runs, on
// the caches that the steps before it leave; then the same with lots drawn anew. A candidate is taken when the 95%
// interval of its time over the default's, by rounds, lies below 1; those taken are held against the default anew, with
// new measurements, site by site and as a whole program, and go back to the default unless they pass. So a tuned
// artifact is never slower than the default but by the error of two intervals.
//
// On a GPU kernels and the algorithms of library calls are chosen so, and the artifact keeps the algorithms taken in
// the library's own bytes; so it does the plans of attention, which has nothing to choose.
//
// A candidate that cannot be compiled or run is none: `log` is told, and the others are measured.
//
// The device is held for a round at a time (DeviceLock); while others use the machine it stands still, as long as
// `patience` lasts. CANCELLED soon after options.compile.cancelled is set; RESOURCE_EXHAUSTED "too_much_memory".
absl::StatusOr<TuneResult> Tune(const Canonical& canonical, const TuneOptions& options);

}  // namespace preheat::autotune

#endif  // PREHEAT_AUTOTUNE_TUNE_H_
