#ifndef PREHEAT_AUTOTUNE_LOADED_ARTIFACT_H_
#define PREHEAT_AUTOTUNE_LOADED_ARTIFACT_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/reference/inputs/host_tensor.h"
#include "kernels/device/device.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat::autotune {

// An artifact with inputs and memory for its outputs, ready to run again and again, by the C ABI that clients use.
// Not for several threads at once.
class LoadedArtifact {
 public:
  // Memory of artifacts of one program that run in turn: inputs, those that runs write to among them, outputs, and on a
  // CPU one arena, as large as the largest. With more than `max_bytes` of it in all (0: any number), Load returns
  // RESOURCE_EXHAUSTED "too_much_memory".
  struct Common;
  static std::shared_ptr<Common> NewCommon(int64_t max_bytes = 0);

  // `inputs`: one for each input of the program, frozen ones included, sizes as 0-d i64; they are copied.
  // `handler` may be null. `gpu`: where the artifact runs and its tensors lie, on the calling thread's current device;
  // null: a CPU's artifact. `common`: what it shares with others; the runtime then checks tensors when it is loaded and
  // not for every run. Null: nothing. Errors are the runtime's: "unsupported_cpu", "extern_needs_torch", ...
  static absl::StatusOr<std::unique_ptr<LoadedArtifact>> Load(const std::string& plan,
                                                              const std::map<std::string, std::string>& code,
                                                              const std::vector<reference::HostTensor>& inputs,
                                                              preheat_extern_handler handler, Device* gpu = nullptr,
                                                              std::shared_ptr<Common> common = nullptr);
  ~LoadedArtifact();
  LoadedArtifact(const LoadedArtifact&) = delete;

  // On a GPU it is done when this returns; what an index out of range has to say comes with the next run.
  absl::Status Run();

  // What the steps of the last run took, in the plan's order; call Profile(true) before. Off is faster.
  void Profile(bool on);
  std::vector<double> StepSeconds();
  // Of a library call "matmul by onednn": who runs it.
  std::vector<std::string> StepNames();
  // See preheat_session_algorithm: after a run.
  std::string Algorithm(size_t step);

  // In the program's order, with the strides that the plan declares, the new contents of mutated inputs among them.
  absl::StatusOr<std::vector<reference::HostTensor>> Outputs() const;
  // Whether running it again gives the same results.
  bool mutates() const;

 private:
  struct Memory;
  LoadedArtifact(Device* gpu, std::shared_ptr<Common> common);
  std::vector<preheat_step_time> StepTimes();
  absl::Status Bind(const std::vector<reference::HostTensor>& inputs, preheat_extern_handler handler);
  absl::Status AddInput(size_t number, const reference::HostTensor& input, std::vector<preheat_tensor>* frozen,
                        std::vector<preheat_tensor>* all);
  absl::Status AddOutput(size_t number);
  absl::Status RunChecked();
  absl::Status RunUnchecked();
  preheat_tensor View(const Memory& memory, const reference::HostTensor& t) const;

  Device* const gpu_;
  const std::shared_ptr<Common> common_;  // may be null
  preheat_executable* executable_ = nullptr;
  preheat_session* session_ = nullptr;
  std::vector<reference::HostTensor> inputs_, outputs_;  // sizes and strides; bytes lie in the memories
  std::vector<std::shared_ptr<Memory>> memory_;
  std::vector<std::shared_ptr<Memory>> output_memory_;  // of outputs that mutate an input: null
  std::vector<int64_t> symbols_;                        // values
  std::vector<preheat_tensor> free_, results_;
};

}  // namespace preheat::autotune

#endif  // PREHEAT_AUTOTUNE_LOADED_ARTIFACT_H_
