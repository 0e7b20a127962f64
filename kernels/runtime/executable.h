#ifndef PREHEAT_KERNELS_RUNTIME_EXECUTABLE_H_
#define PREHEAT_KERNELS_RUNTIME_EXECUTABLE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/device/device.h"
#include "kernels/runtime/plan_view.h"
#include "kernels/runtime/preheat_runtime.h"
#include "kernels/runtime/size_table.h"

namespace preheat::runtime {

// A checked plan with its functions found: what never changes. Safe to read from several threads.
struct LoadedPlan {
  const plan::Plan* plan = nullptr;
  std::vector<Known> known;           // one a size entry
  std::vector<void*> functions;       // one a kernel
  std::vector<uint32_t> free_inputs;  // numbers of the inputs that are not frozen: what a run is given
  std::vector<uint32_t> frozen_inputs;
  std::vector<uint32_t> passed_outputs;  // numbers of the outputs that mutate nothing
  std::vector<int32_t> size_symbol;      // one an input: the symbol that takes its value, -1 for tensors
  std::vector<bool> mutated;             // one an input
  bool defines = false;                  // steps define symbols
  char* constants = nullptr;             // where the device reads them; nothing writes them: check_plan sees to that
  std::vector<std::unique_ptr<LoadedPlan>> subplans;

  uint32_t num_inputs() const { return Count(plan->inputs()); }
  uint32_t num_outputs() const { return Count(plan->outputs()); }
  uint32_t num_symbols() const { return Count(plan->symbols()); }
  const plan::Buffer& input_buffer(uint32_t i) const { return *plan->buffers()->Get(plan->inputs()->Get(i)->buffer()); }
  const plan::Buffer& output_buffer(uint32_t i) const {
    return *plan->buffers()->Get(plan->outputs()->Get(i)->buffer());
  }
};

// An artifact in memory: immutable, shared by sessions and threads.
class Executable {
 public:
  // Checks everything that does not depend on symbols' values, and that this CPU runs the plan's target. Copies the
  // plan; `blobs` are borrowed for the call.
  static absl::StatusOr<std::shared_ptr<const Executable>> Load(absl::string_view plan,
                                                                absl::Span<const preheat_blob> blobs,
                                                                const preheat_load_options& options);

  const LoadedPlan& root() const { return *root_; }
  Device& device() const { return *device_; }
  int num_threads() const { return num_threads_; }
  bool has_extern_steps() const { return !extern_ops_.empty(); }
  const std::vector<std::string>& extern_ops() const { return extern_ops_; }  // sorted, each once

  // The value of each size entry of the root plan under a binding; the last binding is kept. On overflow an error.
  absl::StatusOr<std::shared_ptr<const std::vector<int64_t>>> SizesFor(const int64_t* symbols) const;

 private:
  Executable() = default;
  absl::StatusOr<std::unique_ptr<LoadedPlan>> LoadOne(const plan::Plan& plan, absl::Span<const preheat_blob> blobs);
  absl::Status LoadKernels(LoadedPlan& loaded, absl::Span<const preheat_blob> blobs);
  absl::Status PlaceConstants(LoadedPlan& loaded);
  void NoteExterns(const plan::Plan& plan);

  struct FreeMemory {
    void operator()(char* memory) const;
  };
  std::unique_ptr<char, FreeMemory> plan_bytes_;  // aligned to 64
  std::unique_ptr<Device> device_;
  std::vector<std::shared_ptr<void>> device_constants_;
  std::vector<std::shared_ptr<const LoadedCode>> code_;
  std::unique_ptr<LoadedPlan> root_;
  std::vector<std::string> extern_ops_;
  int num_threads_ = 0;

  mutable std::mutex mutex_;
  mutable std::vector<int64_t> last_symbols_;                        // guarded by mutex_
  mutable std::shared_ptr<const std::vector<int64_t>> last_values_;  // guarded by mutex_
};

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_EXECUTABLE_H_
