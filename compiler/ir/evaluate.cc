#include "compiler/ir/evaluate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ir/evaluate_ops.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/support/status_macros.h"

namespace preheat::ir {
namespace {

void SetScalar(HostTensor& t, int64_t i, Scalar value) {
  IsFloat(t.dtype) ? t.SetFloat(i, std::get<double>(value)) : t.SetInt(i, std::get<int64_t>(value));
}

absl::Status NoEvaluation(const Evaluation& e) {
  return absl::UnimplementedError(absl::StrCat(Info(e.node.op()).name, " has no evaluation"));
}

absl::Status EvaluateLeaf(Evaluation& e) {
  HostTensor& out = e.out();
  switch (e.node.op()) {
    case Op::kConstant: out.data = e.node.String("data"); return absl::OkStatus();
    case Op::kFill:
      for (int64_t i = 0, n = out.elements(); i < n; ++i) SetScalar(out, i, e.node.ScalarAttr("value"));
      return absl::OkStatus();
    case Op::kIota: {
      int64_t dim = e.node.Int("dim");
      ForEachPosition(out.shape, [&](int64_t i, absl::Span<const int64_t> at) {
        IsFloat(out.dtype) ? out.SetFloat(i, static_cast<double>(at[dim])) : out.SetInt(i, at[dim]);
      });
      return absl::OkStatus();
    }
    case Op::kSize: {
      ASSIGN_OR_RETURN(int64_t value, ConcreteValue(e.node.ExprAttr("value"), e.symbols));
      out.SetInt(0, value);
      return absl::OkStatus();
    }
    default: return NoEvaluation(e);
  }
}

// --- Control flow ---

absl::StatusOr<std::vector<HostTensor>> RunBlock(const Evaluation& e, int block,
                                                 const std::vector<HostTensor>& inputs) {
  ASSIGN_OR_RETURN(Graph graph, ParseGraph(e.node.Strings("blocks")[static_cast<size_t>(block)]));
  return Evaluate(graph, inputs, {});
}

absl::Status EvaluateIf(Evaluation& e) {
  std::vector<HostTensor> inputs;
  for (size_t i = 1; i < e.operands.size(); ++i) inputs.push_back(*e.operands[i]);
  ASSIGN_OR_RETURN(e.results, RunBlock(e, e.operands[0]->Int(0) != 0 ? 0 : 1, inputs));
  return absl::OkStatus();
}

absl::Status EvaluateWhile(Evaluation& e) {
  std::vector<HostTensor> state;
  for (const HostTensor* operand : e.operands) state.push_back(*operand);
  while (true) {
    ASSIGN_OR_RETURN(std::vector<HostTensor> more, RunBlock(e, 0, state));
    if (more[0].Int(0) == 0) break;
    ASSIGN_OR_RETURN(std::vector<HostTensor> next, RunBlock(e, 1, state));
    std::move(next.begin(), next.end(), state.begin());
  }
  e.results.assign(state.begin() + 1, state.begin() + 1 + static_cast<std::ptrdiff_t>(e.node.results().size()));
  return absl::OkStatus();
}

absl::Status Dispatch(Evaluation& e) {
  Op op = e.node.op();
  if (op == Op::kIf) return EvaluateIf(e);
  if (op == Op::kWhile) return EvaluateWhile(e);
  if (op == Op::kExtern) return NoEvaluation(e);  // perhaps without a result
  if (IsPointwise(op)) return EvaluatePointwise(e);
  if (IsReduction(op) || (op >= Op::kScanSum && op <= Op::kSort)) return EvaluateReduction(e);
  if (IsView(op)) return EvaluateView(e);
  if (op >= Op::kTake && op <= Op::kPutRows) return EvaluateIndexed(e);
  if (IsLibrary(op)) return EvaluateLibrary(e);
  return EvaluateLeaf(e);
}

absl::Status CheckInput(const GraphInput& input, const HostTensor& tensor, const SymbolValues& symbols, size_t i) {
  ASSIGN_OR_RETURN(std::vector<int64_t> shape, ConcreteShape(input.type.shape, symbols));
  if (tensor.dtype == input.type.dtype && tensor.shape == shape &&
      static_cast<int64_t>(tensor.data.size()) == tensor.elements() * DTypeSize(tensor.dtype)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("input ", i, " is not ", input.type.ToString()));
}

}  // namespace

absl::StatusOr<std::vector<HostTensor>> EvaluateNode(const Node& node, absl::Span<const HostTensor* const> operands,
                                                     const SymbolValues& symbols) {
  Evaluation e{node, operands, symbols, {}};
  for (const TensorType& type : node.results()) {
    ASSIGN_OR_RETURN(std::vector<int64_t> shape, ConcreteShape(type.shape, symbols));
    e.results.push_back(HostTensor::Zeros(type.dtype, std::move(shape)));
  }
  if (absl::Status status = Dispatch(e); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(Print(node).substr(0, 200), ": ", status.message()));
  }
  return std::move(e.results);
}

absl::StatusOr<std::vector<HostTensor>> Evaluate(const Graph& graph, absl::Span<const HostTensor> inputs,
                                                 const SymbolValues& symbols) {
  if (inputs.size() != graph.inputs().size()) {
    return absl::InvalidArgumentError(absl::StrCat("takes ", graph.inputs().size(), " inputs, not ", inputs.size()));
  }
  std::vector<std::vector<HostTensor>> values;
  for (const Node& node : graph.nodes()) {
    if (node.op() == Op::kInput) {
      size_t i = static_cast<size_t>(node.Int("index"));
      RETURN_IF_ERROR(CheckInput(graph.inputs()[i], inputs[i], symbols, i));
      values.push_back({inputs[i]});
      continue;
    }
    std::vector<const HostTensor*> operands;
    for (const Value& operand : node.operands()) operands.push_back(&values[operand.node->id()][operand.index]);
    ASSIGN_OR_RETURN(std::vector<HostTensor> results, EvaluateNode(node, operands, symbols));
    values.push_back(std::move(results));
  }
  std::vector<HostTensor> outputs;
  for (const GraphOutput& output : graph.outputs())
    outputs.push_back(values[output.value.node->id()][output.value.index]);
  return outputs;
}

}  // namespace preheat::ir
