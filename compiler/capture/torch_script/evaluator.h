#ifndef PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_EVALUATOR_H_
#define PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_EVALUATOR_H_

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/capture/torch_script/program_builder.h"

namespace preheat::capture {

// Walks a TorchScript graph as its interpreter would, with tensors that have no memory, and tells `builder` of every
// operator that meets one. Everything else is evaluated. Errors as of ImportTorchScript; torch's exceptions pass
// through.
class Evaluator {
 public:
  // Parameters and buffers of `module` become inputs where they are first read.
  Evaluator(const torch::jit::Module& module, ProgramBuilder& builder);

  // What the graph returns for these inputs (self first).
  absl::StatusOr<c10::IValue> Run(torch::jit::Graph& graph, const std::vector<c10::IValue>& inputs);

 private:
  using Node = torch::jit::Node;
  using Block = torch::jit::Block;

  absl::Status RunBlock(const Block& block);
  absl::Status Step(Node* node);
  absl::Status RunIf(Node* node);
  absl::Status RunLoop(Node* node);
  absl::Status ReadAttribute(Node* node);
  absl::Status CallMethod(Node* node);
  absl::Status CallOperator(Node* node);
  absl::StatusOr<bool> Condition(Node* node, const torch::jit::Value* value);

  // The operator on tensors without memory, or where it has no such form, on zeros.
  std::vector<c10::IValue> Execute(Node* node, std::vector<c10::IValue> arguments);

  const c10::IValue& Get(const torch::jit::Value* value) const { return values_.at(value); }
  std::vector<c10::IValue> Inputs(Node* node) const;
  void Set(const torch::jit::Value* value, c10::IValue to) { values_[value] = std::move(to); }

  ProgramBuilder& builder_;
  std::unordered_map<const torch::jit::Value*, c10::IValue> values_;
  std::unordered_map<const c10::TensorImpl*, std::pair<std::string, bool>> names_;  // of attributes; true: parameter
  std::unordered_map<const c10::TensorImpl*, at::Tensor> inputs_;                   // attributes that were read
  int64_t steps_ = 0;
};

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_EVALUATOR_H_
