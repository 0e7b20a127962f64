#ifndef PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_PROGRAM_BUILDER_H_
#define PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_PROGRAM_BUILDER_H_

#include <ATen/ATen.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "compiler/capture/aten_program.h"

namespace preheat::capture {

// Writes a program while its operators are met. Tensors on torch's meta device stand for its values, by identity;
// tensors with memory are constants. Keeps every tensor alive that it knows.
class ProgramBuilder {
 public:
  ProgramBuilder() = default;
  // Of a block of control flow in `parent`'s program, which outlives it: tensors that only the parent knows become
  // inputs of the block.
  explicit ProgramBuilder(ProgramBuilder* parent) : parent_(parent) {}

  // A tensor without memory for an input of the program.
  at::Tensor AddInput(const std::string& name, ir::InputKind kind, at::IntArrayRef sizes, at::IntArrayRef strides,
                      c10::ScalarType dtype);

  // A call of the dispatcher's operator with these arguments, which gave these results. `place`: of the source.
  absl::Status AddCall(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments,
                       const std::vector<c10::IValue>& results, const std::string& place);

  absl::Status AddOutput(const c10::IValue& value);  // tensors, None, and lists, tuples and dictionaries of them

  // Control flow (kIfOp, kWhileOp) with these operands of this program; `results` are what it gives.
  absl::Status AddControl(const std::string& op, const at::Tensor& condition, const std::vector<at::Tensor>& operands,
                          std::vector<AtenProgram> blocks, const std::vector<at::Tensor>& results,
                          const std::string& place);

  // What a block has taken of its surroundings so far.
  const std::vector<at::Tensor>& captured() const { return captured_; }

  AtenProgram Finish() { return std::move(program_); }
  // A block that takes its own inputs and then these tensors of its surroundings, in this order.
  AtenProgram FinishBlock(const std::vector<at::Tensor>& captured);

 private:
  absl::StatusOr<int> IdOf(const at::Tensor& tensor);
  absl::StatusOr<Argument> ToArgument(const c10::IValue& value, const c10::Argument& formal);
  int NewValue(const at::Tensor& tensor);
  bool Knows(const at::Tensor& tensor) const;
  int Capture(const at::Tensor& tensor);
  int AddLocation(const std::string& op, const std::string& place);

  ProgramBuilder* const parent_ = nullptr;
  AtenProgram program_;
  std::vector<at::Tensor> captured_;
  std::unordered_map<const c10::TensorImpl*, int> ids_;
  std::vector<at::Tensor> alive_;
};

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_PROGRAM_BUILDER_H_
