#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_NODE_TEXT_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_NODE_TEXT_H_

#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda/emit_cuda.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/schedule/access.h"
#include "compiler/schedule/fuse.h"

namespace preheat::codegen {

// The text around a GPU's kernel for one node that is no loop nest over expressions: how it addresses its operands, and
// its head. The base of emit_put_rows and emit_scan; not for use elsewhere.
class CudaNodeText {
 public:
  CudaNodeText(const schedule::Region& region, const StridesFn& strides_of, const ir::Ranges& sizes, Kernel& loops)
      : node_(*region.outputs[0].node), strides_of_(strides_of), sizes_(sizes), loops_(loops) {}

 protected:
  ~CudaNodeText() = default;

  // An operand or result as the kernel addresses it.
  struct Array {
    std::string constant;  // not empty: every element is that
    int buffer = 0;
    ir::DType dtype = ir::DType::kF32;
    std::vector<ir::Expr> shape, strides;
    ir::Expr offset;
  };
  Array Operand(ir::Value value);
  Array Written(ir::Value value);

  // A variable of the kernel; every other symbol is a size, which it is passed.
  void Local(const std::string& name) { locals_.insert(name); }
  std::string Text(const ir::Expr& e);
  std::string Element(const Array& a, const schedule::Index& index);
  std::string Load(const Array& a, const schedule::Index& index);

  // The kernel of `body`, launched with loops_.extent blocks.
  absl::StatusOr<CudaKernel> Finish(const std::string& body, int64_t threads);

  const ir::Node& node_;
  const StridesFn& strides_of_;
  const ir::Ranges& sizes_;
  Kernel& loops_;
  std::set<std::string> math_;

 private:
  int Buffer(ir::Value value, bool written);

  std::map<std::pair<ir::Value, bool>, int> buffers_;
  std::set<std::string> symbols_, locals_;
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_NODE_TEXT_H_
