#ifndef PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_EVALUATOR_H_
#define PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_EVALUATOR_H_

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/capture/torch_script/program_builder.h"

namespace preheat::capture {

// Walks a TorchScript graph as its interpreter would, with tensors that have no memory, and tells `builder` of every
// operator that meets one. Everything else is evaluated. A number that only the contents of a tensor tell is a tensor
// of no dimensions, bool, i64 or f64 (scalars.cc); what such a number steers is control flow in the program
// (control_flow.cc). Errors as of ImportTorchScript; torch's exceptions pass
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

  // --- Numbers that tensors hold ---
  absl::Status ReadContents(Node* node, const std::string& name, at::Tensor tensor);
  // An operator on numbers, or a tensor and a number, some of which a tensor holds.
  absl::Status CallOnNumbers(Node* node, const std::string& name, std::vector<c10::IValue> arguments);
  // A call of the dispatcher's operator, which becomes a node; arguments left out have their default.
  absl::StatusOr<at::Tensor> Emit(Node* node, const char* name, const char* overload,
                                  std::vector<c10::IValue> arguments);
  absl::StatusOr<at::Tensor> EmitCast(Node* node, const at::Tensor& tensor, c10::ScalarType dtype);

  // --- Control flow that they steer (control_flow.cc) ---
  struct DataBranch;
  struct DataLoop;
  absl::Status BranchOnData(Node* node, const at::Tensor& condition);
  absl::StatusOr<c10::IValue> Join(const DataBranch& branch, const c10::TypePtr& type, std::array<c10::IValue, 2> ways,
                                   std::vector<at::Tensor>& results);
  absl::StatusOr<c10::IValue> JoinTuples(const DataBranch& branch, const c10::TypePtr& type,
                                         const std::array<c10::IValue, 2>& ways, std::vector<at::Tensor>& results);
  absl::StatusOr<c10::IValue> Anything(const DataBranch& branch, int way, const at::Tensor& like);
  // The loop from iteration `start` on, under `condition`, a bool or a number that a tensor holds.
  absl::Status LoopOnData(Node* node, const c10::IValue& trips, int64_t start, const c10::IValue& condition,
                          const std::vector<c10::IValue>& carried);
  absl::StatusOr<std::vector<c10::IValue>> WalkBody(DataLoop& loop, ProgramBuilder& body);
  absl::Status GiveState(const DataLoop& loop, const std::vector<c10::IValue>& outputs, ProgramBuilder& body);
  absl::Status AddLoop(const DataLoop& loop, ProgramBuilder& body);
  absl::StatusOr<std::vector<c10::IValue>> RunInside(ProgramBuilder& inside, const Block& block);

  // The operator on tensors without memory, or where it has no such form, on zeros.
  std::vector<c10::IValue> Execute(Node* node, std::vector<c10::IValue> arguments);
  absl::Status CallInterpreter(Node* node, const c10::FunctionSchema& schema, std::vector<c10::IValue> arguments);

  const c10::IValue& Get(const torch::jit::Value* value) const { return values_.at(value); }
  std::vector<c10::IValue> Inputs(Node* node) const;
  void Set(const torch::jit::Value* value, c10::IValue to) { values_[value] = std::move(to); }

  ProgramBuilder& root_;     // has the inputs
  ProgramBuilder* builder_;  // of the block that is walked
  std::unordered_map<const torch::jit::Value*, c10::IValue> values_;
  std::unordered_map<const c10::TensorImpl*, std::pair<std::string, bool>> names_;  // of attributes; true: parameter
  std::unordered_map<const c10::TensorImpl*, at::Tensor> inputs_;                   // attributes that were read
  int64_t steps_ = 0;
};

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_EVALUATOR_H_
