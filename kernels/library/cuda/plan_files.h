#ifndef PREHEAT_KERNELS_LIBRARY_CUDA_PLAN_FILES_H_
#define PREHEAT_KERNELS_LIBRARY_CUDA_PLAN_FILES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace preheat::library {

// Execution plans whose kernels cuDNN compiled (0.3 s each), as files beside the runtime's code: another process of
// this user restores them in a millisecond. They only ever save work: a file that is not there, or holds other bytes
// than were written, is no plan, and one that cannot be written is not kept.

// The folder, which must be this user's alone. The first one that a process names stays; none at first.
void KeepPlansIn(const std::string& folder);

// `what` names library, version, GPU and problem. Empty without.
std::string ReadPlanFile(absl::string_view what);
void WritePlanFile(absl::string_view what, absl::string_view plan);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_CUDA_PLAN_FILES_H_
