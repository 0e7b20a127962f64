#ifndef PREHEAT_SERVER_WORKER_COMPILE_TASK_H_
#define PREHEAT_SERVER_WORKER_COMPILE_TASK_H_

#include "absl/status/statusor.h"
#include "server/worker/task_context.h"

namespace preheat::worker {

// A request's source to an artifact: import, canonicalize, tell the key, and compile if the server says so. The result
// has a manifest with every blob it names, or, when it was not to compile, only the boundary of the program.
absl::StatusOr<v1::TaskDone> RunCompileTask(const v1::CompileTask& task, const TaskContext& context);

}  // namespace preheat::worker

#endif  // PREHEAT_SERVER_WORKER_COMPILE_TASK_H_
