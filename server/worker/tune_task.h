#ifndef PREHEAT_SERVER_WORKER_TUNE_TASK_H_
#define PREHEAT_SERVER_WORKER_TUNE_TASK_H_

#include "absl/status/statusor.h"
#include "server/worker/task_context.h"

namespace preheat::worker {

// Measures schedules for a key that has a default generation (autotune/tune.h), on made-up inputs of its own sizes. The
// result has the manifest of the tuned generation with its new blobs and the records that are new; or none, and
// `not_tuned` says why: another machine's target, nothing to choose, a program that cannot be run here.
absl::StatusOr<v1::TaskDone> RunTuneTask(const v1::TuneTask& task, const TaskContext& context);

}  // namespace preheat::worker

#endif  // PREHEAT_SERVER_WORKER_TUNE_TASK_H_
