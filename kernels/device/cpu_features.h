#ifndef PREHEAT_KERNELS_DEVICE_CPU_FEATURES_H_
#define PREHEAT_KERNELS_DEVICE_CPU_FEATURES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace preheat {

// CPU targets are written "cpu:<level>[+<feature>]...": a psABI level, x86-64-v2 to x86-64-v4, and features beyond it
// in the order of the table in cpu_features.cc. Only features that generated code makes use of are part of a host's
// name, so that equal code is shared by CPUs that differ elsewhere.

// The canonical target of this machine, by cpuid and what the system saves on a context switch.
const std::string& HostTarget();

// OK if this CPU can run code for `target`. INVALID_ARGUMENT "unsupported_target" when it is no CPU target,
// FAILED_PRECONDITION "unsupported_cpu" naming every feature that is missing.
absl::Status CheckHostRuns(absl::string_view target);

// True if this CPU has it: a level or a feature by the names above.
bool HostHas(absl::string_view feature);

}  // namespace preheat

#endif  // PREHEAT_KERNELS_DEVICE_CPU_FEATURES_H_
