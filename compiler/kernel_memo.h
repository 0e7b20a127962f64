#ifndef PREHEAT_COMPILER_KERNEL_MEMO_H_
#define PREHEAT_COMPILER_KERNEL_MEMO_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/generate_kernels.h"

namespace preheat {

// A region's kernel: what was generated, perhaps for another region, and the buffers of this one.
struct RegionKernel {
  std::shared_ptr<const GeneratedKernel> kernel;
  std::vector<codegen::KernelBuffer> buffers;  // kernel->loops.buffers on this region's values
};

// Generates the kernels of a program, each once: the layers of a model have the same regions but for the values that
// they read and write, and generating a kernel is what costs most in the compiler. Not thread-safe. What it is made
// with must outlive it.
class KernelMemo {
 public:
  KernelMemo(const schedule::Layouts& layouts, const ir::Ranges& sizes, DeviceKind device)
      : layouts_(layouts), sizes_(sizes), device_(device) {}
  KernelMemo(const KernelMemo&) = delete;
  KernelMemo& operator=(const KernelMemo&) = delete;

  // As GenerateRegion.
  absl::StatusOr<RegionKernel> Generate(const schedule::Region& region, const codegen::Schedule& schedule = {});
  // As GenerateCopy.
  absl::StatusOr<RegionKernel> Copy(ir::Value value, const std::vector<ir::Expr>& strides) const;

 private:
  struct Known {
    std::shared_ptr<const GeneratedKernel> kernel;
    std::vector<std::pair<size_t, int>> places;  // of each buffer's value in the region
  };

  const schedule::Layouts& layouts_;
  const ir::Ranges& sizes_;
  const DeviceKind device_;
  std::unordered_map<std::string, Known> known_;  // by what the region is, apart from its values
};

}  // namespace preheat

#endif  // PREHEAT_COMPILER_KERNEL_MEMO_H_
