#ifndef PREHEAT_KERNELS_RUNTIME_SESSION_H_
#define PREHEAT_KERNELS_RUNTIME_SESSION_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/runtime/executable.h"
#include "kernels/runtime/plan_instance.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat::runtime {

// An executable with its frozen inputs: what preheat_runtime.h says of sessions. Runs may be concurrent.
class Session {
 public:
  // Runs the prologue. FAILED_PRECONDITION "extern_needs_torch" naming the operators when there is no handler for them.
  static absl::StatusOr<std::unique_ptr<Session>> Create(std::shared_ptr<const Executable> executable,
                                                         const preheat_bind_options& options);

  absl::Status Refresh(const preheat_tensor* frozen, size_t num_frozen);
  absl::Status Run(absl::Span<const preheat_tensor> inputs, absl::Span<const preheat_tensor> outputs,
                   Stream stream = nullptr);
  absl::Status RunRaw(const int64_t* symbols, void* const* inputs, void* const* outputs, void* arena,
                      Stream stream = nullptr);

  void SetProfile(bool on) { profile_.store(on, std::memory_order_relaxed); }
  // Steps of the last profiled run, up to `capacity`; how many there are. Names live as long as the session.
  size_t StepTimes(preheat_step_time* times, size_t capacity);
  // See preheat_session_algorithm.
  std::string Algorithm(size_t step);

 private:
  explicit Session(std::shared_ptr<const Executable> executable) : executable_(std::move(executable)) {}
  template <typename Call>
  absl::Status Profiled(const Call& call);

  const std::shared_ptr<const Executable> executable_;
  SessionContext context_;
  std::unique_ptr<PlanInstance> root_;

  std::atomic<bool> profile_{false};
  std::mutex times_mutex_;
  std::vector<std::string> names_;  // guarded by times_mutex_; never changed once filled
  std::vector<double> seconds_;     // guarded by times_mutex_
};

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_SESSION_H_
