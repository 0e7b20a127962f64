#include "kernels/library/task_call.h"

#include <algorithm>

#include "kernels/device/parallel_for.h"

namespace preheat::library {
namespace {

constexpr int64_t kVectorFloats = 16;       // of the widest CPU
constexpr int64_t kWorthAThread = 1 << 16;  // multiplications

}  // namespace

float* FloatParts::Take(int64_t floats) {
  float* const part = from_ != nullptr ? from_ + used_ : nullptr;
  used_ += (floats + kVectorFloats - 1) / kVectorFloats * kVectorFloats;
  return part;
}

TaskCall::TaskCall() : threads_(std::max(1, MaxThreads())) {}

void TaskCall::SetTasks(int64_t tasks, int64_t work, int64_t floats) {
  tasks_ = tasks;
  work_ = std::max<int64_t>(1, work);
  floats_ = floats;
}

struct TaskCall::Job {
  const TaskCall* call;
  const preheat_lib_addresses* addresses;
};

absl::Status TaskCall::Run(const preheat_lib_addresses& addresses) const {
  const int threads = std::min(threads_, ThreadsFor(tasks_, std::max<int64_t>(1, kWorthAThread / work_)));
  const Job job{this, &addresses};
  ParallelRanges(
      threads, tasks_,
      [](const void* context, int64_t begin, int64_t end, int thread) {
        const Job& job = *static_cast<const Job*>(context);
        float* const memory = static_cast<float*>(job.addresses->scratch) + thread * job.call->floats_;
        for (int64_t task = begin; task < end; ++task) job.call->RunTask(*job.addresses, task, memory);
      },
      &job);
  return absl::OkStatus();
}

}  // namespace preheat::library
