#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_TEXT_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_TEXT_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda/emit_cuda.h"
#include "compiler/codegen/kernel_text.h"
#include "compiler/codegen/loop_ir.h"

namespace preheat::codegen {

// Threads of a warp, and of most blocks.
inline constexpr int64_t kWarp = 32, kBlock = 256;
// Of a large GPU: its multiprocessors, of 2048 threads, and blocks of kBlock threads that fill them once.
inline constexpr int64_t kProcessors = 132, kFullGrid = 1056;

// The least power of two that is not below n.
int64_t PowerOfTwoFrom(int64_t n);

// How the statements of a kernel are spelled in CUDA C++. The base of the emitters, each of which is one way to lay a
// kernel's loops over blocks and threads; not for use elsewhere.
class CudaText : public KernelText {
 protected:
  // Both outlive it.
  CudaText(const Kernel& kernel, const Schedule& schedule);

  // What the schedule sets, where it is a power of two from `least` to `most`.
  std::optional<int64_t> Turned(const std::string& knob, int64_t least, int64_t most) const {
    return PowerOfTwo(schedule_, knob, least, most);
  }

  // The kernel around the body that was printed. `launch` holds threads and grid.
  absl::StatusOr<CudaKernel> Finish(CudaLaunch launch);
  // The variables of the outer loops, from an item's number in "q".
  void DefineOuter(const std::vector<Loop>& outer);

  // --- Statements ---
  std::string Ref(int s) const override;
  // "const float v3 = ...;", and the report of an index that is out of range.
  void Define(int s);
  // "b2[index]" or, of a load that was fetched already, where it is.
  std::string Element(const Stmt& load) override;
  std::string Stored(const Store& store) override;
  // The statement that a store takes, before it was rounded to what memory holds.
  int Unrounded(const Store& store) const;

  // --- Reductions ---
  void DeclareAccumulators(const std::vector<int>& accumulators);
  // The accumulator takes one more value, of element `position` where that counts.
  void Accumulate(int a, const std::string& v, const std::string& position);
  // The accumulator takes those of other lanes of the warp. `lanes`: the head of a loop over "m", which lane numbers
  // are xored with.
  void Shuffle(int a, const std::string& type, const std::string& lanes);
  static std::string SharedType(ir::DType dtype);  // bool is kept as int

  const Schedule& schedule_;
  bool two_blocks_ = true;  // of 512 threads are to fit a multiprocessor: one loads while the other computes
  std::string lanes_;       // "[u]" where every accumulator and column value is an array over a vector
  std::map<int, std::string> fetched_;  // loads whose element is in a register or shared memory
  std::set<int> arrays_;                // statements that are arrays over a vector
  std::set<int> varying_;               // statements that differ from element to element where text is printed now
  std::map<int, int64_t> aligned_;      // buffers accessed by vectors: the alignment they need
  std::set<std::string> types_;
  std::string head_;  // declarations at the kernel's begin

 private:
  std::string SizeText(const std::string& symbol) const override;
  std::string CastValue(const Stmt& cast) override;
  std::string OpValue(const Stmt& stmt) override;
  void AccumulateArg(int a, const std::string& v, const std::string& position);
  std::string Signature(const CudaLaunch& launch) const;
  std::string AlignedText() const;
  bool RoundedAtOnce(int s) const;
  bool SkipsRounding(const Stmt& cast);
  bool IsSmooth(int s);
  std::optional<int> OnePlus(const Stmt& add, ir::Op op) const;

  bool narrow_ = false;  // holds 16-bit floats: functions need not be better than those by far
  std::vector<std::vector<int>> users_;
  std::set<int> stored_exactly_;  // statements that memory takes as another type than bf16
  std::set<int> reduced_;         // that an accumulator takes
  std::set<int> stored_;
  std::set<int> stored_wide_;  // in more than 16 bits
  std::map<int, bool> smooth_;
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_TEXT_H_
