#ifndef PREHEAT_KERNELS_LIBRARY_CALL_H_
#define PREHEAT_KERNELS_LIBRARY_CALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/library/library_call.h"

namespace preheat::library {

// Values of plan.fbs DType that library calls compute with.
enum class DType : int32_t {
  kBool = 0,
  kU8 = 1,
  kI8 = 2,
  kI16 = 3,
  kI32 = 4,
  kI64 = 5,
  kF16 = 6,
  kBF16 = 7,
  kF32 = 8,
  kF64 = 9
};

struct TensorSpec {
  int32_t dtype = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // elements

  int rank() const { return static_cast<int>(sizes.size()); }
  int64_t elements() const;
};

struct EpilogueSpec {
  int32_t op = 0;      // PREHEAT_LIB_BIAS, ...
  TensorSpec operand;  // rank 0 where the op takes none
};
bool TakesOperand(int32_t epilogue_op);

// A library call with every size known, owning its parts.
struct CallSpec {
  int32_t op = PREHEAT_LIB_MATMUL;
  TensorSpec operands[2];
  TensorSpec result;
  std::vector<TensorSpec> more_results;  // of attention: perhaps its rows' log sums; of its gradient: k's and v's
  std::vector<int64_t> stride, padding, dilation;  // one a spatial dimension; empty for matmul
  int64_t groups = 1;
  bool transposed = false;
  std::vector<EpilogueSpec> epilogue;
  double scale = 1;  // of attention's scores
  bool frozen[2] = {false, false};
  // On a GPU, which of the library's algorithms: cuda/algorithm.h. Empty: its own choice.
  std::string algorithm;

  int spatial() const { return static_cast<int>(stride.size()); }
};

// INVALID_ARGUMENT naming what does not fit: ranks, sizes that disagree, dtypes that differ or that no library
// computes, strides that make results overlap, a window that leaves the input.
absl::Status CheckCall(const CallSpec& call);

// Replaces transposed convolutions and their gradients by plain ones, exactly: operands may be exchanged. `swapped`
// tells whether they were. REQUIRES: CheckCall is OK.
CallSpec NormalizeCall(CallSpec call, bool* swapped);

// The same call in the plugin's terms, pointing into `call`, and `epilogue` for the epilogues' array.
preheat_lib_call AsC(const CallSpec& call, std::vector<preheat_lib_epilogue>* epilogue);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_CALL_H_
