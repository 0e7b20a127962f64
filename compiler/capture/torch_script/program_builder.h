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
  // A tensor without memory for an input of the program.
  at::Tensor AddInput(const std::string& name, ir::InputKind kind, at::IntArrayRef sizes, at::IntArrayRef strides,
                      c10::ScalarType dtype);

  // A call of the dispatcher's operator with these arguments, which gave these results. `place`: of the source.
  absl::Status AddCall(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments,
                       const std::vector<c10::IValue>& results, const std::string& place);

  absl::Status AddOutput(const c10::IValue& value);  // tensors, None, and lists, tuples and dictionaries of them

  AtenProgram Finish() { return std::move(program_); }

 private:
  absl::StatusOr<int> IdOf(const at::Tensor& tensor);
  absl::StatusOr<Argument> ToArgument(const c10::IValue& value, const c10::Argument& formal);
  int NewValue(const at::Tensor& tensor);

  AtenProgram program_;
  std::unordered_map<const c10::TensorImpl*, int> ids_;
  std::vector<at::Tensor> alive_;
};

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_PROGRAM_BUILDER_H_
