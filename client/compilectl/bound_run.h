#ifndef PREHEAT_CLIENT_COMPILECTL_BOUND_RUN_H_
#define PREHEAT_CLIENT_COMPILECTL_BOUND_RUN_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cpp/executable.h"
#include "compiler/reference/inputs/host_tensor.h"

namespace preheat::cli {

// Host tensors as the runtime sees them. Borrows them.
class HostTensors {
 public:
  explicit HostTensors(const std::vector<reference::HostTensor>& tensors);
  absl::Span<const preheat_tensor> tensors() const { return tensors_; }

 private:
  std::vector<preheat_tensor> tensors_;
};

// An executable with one set of inputs and memory for its outputs, run again and again. Inputs that the program
// mutates keep what a run wrote.
class BoundRun {
 public:
  // One tensor for each input, frozen ones included; sizes are 0-d i64.
  static absl::StatusOr<std::unique_ptr<BoundRun>> Make(const Executable& executable,
                                                        const std::vector<reference::HostTensor>& inputs,
                                                        preheat_extern_handler handler);

  absl::Status Once() { return session_->Run(absl::MakeConstSpan(inputs_), absl::MakeConstSpan(outputs_)); }

  const std::vector<reference::HostTensor>& outputs() const { return output_memory_; }

 private:
  BoundRun() = default;
  absl::Status MakeOutputs(const Executable& executable);

  std::vector<reference::HostTensor> input_memory_, output_memory_;
  std::vector<preheat_tensor> inputs_, outputs_;  // of a run: without frozen inputs and mutating outputs
  std::vector<int64_t> size_values_, unit_strides_;
  std::optional<Session> session_;
};

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_BOUND_RUN_H_
