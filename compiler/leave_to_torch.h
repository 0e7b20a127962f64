#ifndef PREHEAT_COMPILER_LEAVE_TO_TORCH_H_
#define PREHEAT_COMPILER_LEAVE_TO_TORCH_H_

#include <functional>

#include "compiler/capture/aten_program.h"

namespace preheat {

// Which of a program's operators torch runs better on a GPU than a library or kernel of ours, although they have native
// forms: convolutions with one filter a channel where a backward pass wants their tensors, which then lie with channels
// first, and their gradients. `program` must outlive the result.
std::function<bool(const capture::AtenNode&)> LeaveToTorchOnGpu(const capture::AtenProgram& program);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_LEAVE_TO_TORCH_H_
