#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_NODE_TEXT_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_NODE_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda/emit_cuda.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/codegen/node_text.h"
#include "compiler/schedule/fuse.h"

namespace preheat::codegen {

// The text around a kernel of which blocks share an item: its head and its launch. The base of emit_put_rows and
// emit_scan; not for use elsewhere.
class CudaNodeText : public NodeText {
 public:
  CudaNodeText(const schedule::Region& region, const StridesFn& strides_of, const ir::Ranges& sizes, Kernel& kernel)
      : NodeText(region, strides_of, sizes, kernel, SizeName("")) {}

 protected:
  NodeArray FilledOrOperand(int i);

  // "const long i<d> = q % size; q /= size;", and the variable's name noted.
  std::string DefineFromQ(size_t d, const ir::Expr& size);

  // The kernel of `body`, launched with as many blocks as the kernel's extent.
  absl::StatusOr<CudaKernel> Finish(const std::string& body, int64_t threads);
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_NODE_TEXT_H_
