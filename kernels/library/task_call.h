#ifndef PREHEAT_KERNELS_LIBRARY_TASK_CALL_H_
#define PREHEAT_KERNELS_LIBRARY_TASK_CALL_H_

#include <cstdint>
#include <string>

#include "kernels/library/provider.h"

namespace preheat::library {

// Hands out one thread's memory in parts that begin at multiples of the widest vector. Without memory it counts only.
class FloatParts {
 public:
  explicit FloatParts(float* from) : from_(from) {}

  // Null where there is no memory.
  float* Take(int64_t floats);
  int64_t used() const { return used_; }

 private:
  float* const from_;
  int64_t used_ = 0;
};

// A call of the own loops that is a number of tasks, each computed by one thread in memory of its own. Nothing is
// packed.
class TaskCall : public PreparedCall {
 public:
  absl::string_view provider() const override { return "loops"; }
  int64_t scratch_bytes() const override { return threads_ * floats_ * static_cast<int64_t>(sizeof(float)); }
  absl::Status Run(const preheat_lib_addresses& addresses) const override;

 protected:
  TaskCall();

  // That scratch is made for.
  int threads() const { return threads_; }
  // Once, by the constructor. `work`: multiplications of a task, at least about; `floats`: its thread's memory.
  void SetTasks(int64_t tasks, int64_t work, int64_t floats);
  // On any thread, several at once. `memory`: of this thread, with what the last task left.
  virtual void RunTask(const preheat_lib_addresses& addresses, int64_t task, float* memory) const = 0;

 private:
  struct Job;

  const int threads_;
  int64_t tasks_ = 0, work_ = 1, floats_ = 0;
};

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_TASK_CALL_H_
