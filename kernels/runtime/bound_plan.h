#ifndef PREHEAT_KERNELS_RUNTIME_BOUND_PLAN_H_
#define PREHEAT_KERNELS_RUNTIME_BOUND_PLAN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/library/provider.h"
#include "kernels/runtime/executable.h"

namespace preheat::runtime {

// A plan under one binding of its symbols: every size a number, every step ready to run but for addresses. Building one
// proves that no buffer or operand reaches outside of the memory that it is said to lie in; running one then only adds.
// Safe to read from several threads; each run fills a table of addresses of its own.

struct BoundBuffer {
  plan::Storage storage;
  uint32_t index;  // of the input or output
  int64_t offset;  // bytes, in the storages that have one
  int32_t dtype;
  int32_t rank;
  const int64_t* sizes;
  const int64_t* strides;
  bool empty;
  int64_t bytes;  // that it may be used for; -1: what only a run's symbols tell, in the prologue
};

// A buffer's memory seen in another shape.
struct BoundOperand {
  uint32_t buffer;
  int64_t offset;  // bytes
  int32_t dtype;
  int32_t rank;
  const int64_t* sizes;
  const int64_t* strides;
};

struct BoundKernel {
  const char* name;
  void* function;
  uint32_t first_argument, num_arguments;  // in BoundPlan::arguments
  const int64_t* scalars;
  int64_t extent, grain;
  int64_t scratch_bytes;  // a thread's (CUDA: a block's), rounded to 64
  uint32_t num_scalars;
  uint32_t grid[3], block[3];  // CUDA
  int64_t shared_bytes;        // CUDA
};

// A library call that the session has made ready: see session.h.
struct ReadyLibrary {
  std::unique_ptr<library::PreparedCall> call;
  const void* packed[2] = {nullptr, nullptr};
  int64_t scratch_bytes = 0;
  int fork_generation = 0;  // of the process that prepared it
};

struct BoundLibrary {
  const char* name;
  const plan::LibraryStep* step;
  BoundOperand operands[2];
  BoundOperand result;
  std::vector<BoundOperand> more_results;
  std::vector<BoundOperand> epilogue;               // one an epilogue; those without operand: buffer kNoBuffer
  std::atomic<const ReadyLibrary*> ready{nullptr};  // owned by BoundPlan::ready_libraries
};
inline constexpr uint32_t kNoBuffer = UINT32_MAX;

struct BoundExtern {
  std::string name;  // "extern aten.sort.stable"
  const plan::ExternStep* step;
  std::string call;  // its sizes are numbers
  std::vector<BoundOperand> operands;
};

// Control flow: read from the plan as it stands.
struct BoundControl {
  const char* name;
  const plan::Step* step;
};

struct BoundStep {
  plan::StepKind kind;
  uint32_t index;  // in the list of its kind; If, While, CallPlan and ReadScalar: in `controls`
};

struct BoundPlan {
  const LoadedPlan* loaded = nullptr;
  std::vector<int64_t> symbols;
  std::vector<int64_t> values;  // of the size entries
  std::vector<BoundBuffer> buffers;
  std::vector<BoundStep> steps;
  std::vector<BoundKernel> kernels;
  std::vector<uint32_t> arguments;  // buffers of all kernel steps, one after another
  std::vector<uint8_t> written;     // one an argument: the kernel writes it
  std::vector<std::unique_ptr<BoundLibrary>> libraries;
  std::vector<BoundExtern> externs;
  std::vector<BoundControl> controls;
  int64_t arena_bytes = 0;

  std::mutex ready_mutex;                                            // taken to make a library call ready
  std::vector<std::unique_ptr<const ReadyLibrary>> ready_libraries;  // guarded by ready_mutex

  // Shapes of buffers and operands, in pieces that never move.
  std::vector<std::unique_ptr<int64_t[]>> numbers;
};

// Which of the two lists of steps.
enum class Part { kPrologue, kRun };

// Symbols that steps define have their least values until the step has run; a plan holds for every value in their
// range. OUT_OF_RANGE "size_out_of_range" when sizes do not fit or a guard fails; DATA_LOSS "corrupt_artifact" when
// memory does not.
absl::StatusOr<std::unique_ptr<BoundPlan>> Bind(const LoadedPlan& loaded, Part part, const int64_t* symbols);

// The library call of a step, for library::Prepare.
library::CallSpec SpecOf(const BoundLibrary& bound);

// Profile names of every step of a plan, in order: the kernel's, "matmul", "extern aten.sort.stable".
const char* NameOf(const BoundPlan& plan, const BoundStep& step);

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_BOUND_PLAN_H_
