#include "kernels/library/cuda/prepare_cuda.h"

#include <utility>

#include "compiler/support/status_macros.h"
#include "kernels/library/cuda/cublaslt.h"
#include "kernels/library/cuda/cudnn_attention.h"
#include "kernels/library/cuda/cudnn_conv.h"
#include "kernels/library/exchanged_operands.h"

namespace preheat::library {

absl::StatusOr<std::unique_ptr<PreparedCall>> PrepareCuda(const CallSpec& call) {
  RETURN_IF_ERROR(CheckCall(call));
  if (call.op >= PREHEAT_LIB_ATTENTION) return PrepareCudnnAttention(call);
  if (call.op == PREHEAT_LIB_MATMUL) return PrepareCublasLt(call);
  bool swapped = false;
  const CallSpec plain = NormalizeCall(call, &swapped);
  ASSIGN_OR_RETURN(std::unique_ptr<PreparedCall> prepared, PrepareCudnn(plain));
  return swapped ? WithExchangedOperands(std::move(prepared)) : std::move(prepared);
}

}  // namespace preheat::library
