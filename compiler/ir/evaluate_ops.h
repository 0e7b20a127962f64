#ifndef PREHEAT_COMPILER_IR_EVALUATE_OPS_H_
#define PREHEAT_COMPILER_IR_EVALUATE_OPS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/host_tensor.h"

namespace preheat::ir {

// One node under evaluation: what evaluate.cc hands to the families of operators. The results are there
// already, with their dtypes and shapes, full of zeros.
struct Evaluation {
  const Node& node;
  absl::Span<const HostTensor* const> operands;
  const SymbolValues& symbols;
  std::vector<HostTensor> results;

  const HostTensor& in(int i) const { return *operands[i]; }
  HostTensor& out(int i = 0) { return results[i]; }
};

absl::Status EvaluatePointwise(Evaluation& e);
absl::Status EvaluateReduction(Evaluation& e);  // and scans, argmax, argmin, sort
absl::Status EvaluateView(Evaluation& e);
absl::Status EvaluateIndexed(Evaluation& e);  // take, gather, scatter, put_rows
absl::Status EvaluateLibrary(Evaluation& e);
absl::Status EvaluateAttention(Evaluation& e);  // kFused with base "attention" or "attention_grad"

// What pointwise operators do to two elements, for those that reduce by them. Integers wrap at 64 bits here
// and at the dtype's width when they are stored.
absl::StatusOr<double> ApplyFloat(Op op, DType dtype, double a, double b);
absl::StatusOr<int64_t> ApplyInt(Op op, DType dtype, int64_t a, int64_t b);
// Element `to` of out becomes op of a's element i and b's element j, in a's type; out may be a. REQUIRES: no
// comparison.
absl::Status Apply(Op op, HostTensor& out, int64_t to, const HostTensor& a, int64_t i, const HostTensor& b, int64_t j);

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_EVALUATE_OPS_H_
