#ifndef PREHEAT_SERVER_WORKER_VERIFY_TASK_H_
#define PREHEAT_SERVER_WORKER_VERIFY_TASK_H_

#include "absl/status/statusor.h"
#include "server/worker/task_context.h"

namespace preheat::worker {

// Runs an artifact on made-up inputs (compiler/reference/inputs) and holds its outputs against the float64 reference,
// beside eager's. The result has only evidence; state NOT_POSSIBLE, with the reason, when this machine cannot run it,
// the program draws random numbers, or the reference has no float64 form of an operator. Errors are faults of the
// request.
absl::StatusOr<v1::TaskDone> RunVerifyTask(const v1::VerifyTask& task, const TaskContext& context);

}  // namespace preheat::worker

#endif  // PREHEAT_SERVER_WORKER_VERIFY_TASK_H_
