#include "kernels/library/cuda/attention_problem.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/support/status_macros.h"

namespace preheat::library {
namespace {

using cudnn::Unsupported;

absl::Status CheckRows(const TensorSpec& t) {
  if (t.rank() != 4) return Unsupported("attention of other than four dimensions");
  if (t.strides[3] != 1 && t.sizes[3] != 1) return Unsupported("attention whose rows are not contiguous");
  for (int d = 0; d < 3; ++d) {
    if (t.sizes[d] != 1 && t.strides[d] % 8 != 0) return Unsupported("attention whose rows are not aligned");
  }
  return absl::OkStatus();
}

absl::Status CheckPlaces(const AttentionProblem& p) {
  TensorSpec keys = p.k;
  std::swap(keys.sizes[2], keys.sizes[3]), std::swap(keys.strides[2], keys.strides[3]);
  for (const TensorSpec* t : {&p.q, static_cast<const TensorSpec*>(&keys), &p.v, &p.output}) {
    RETURN_IF_ERROR(CheckRows(*t));
  }
  if (!p.gradient) return absl::OkStatus();
  for (const TensorSpec* t : {&p.grad, &p.grad_q, &p.grad_k, &p.grad_v}) RETURN_IF_ERROR(CheckRows(*t));
  return absl::OkStatus();
}

// As it lies: what is broadcast along a dimension has a stride of 0 there. (With one element there instead, engines
// take a mask that is the same for all rows, and give wrong gradients.)
absl::Status CheckMask(const AttentionProblem& p, const TensorSpec& mask) {
  if (mask.dtype != p.q.dtype) return Unsupported("attention with a mask of another type");
  if (mask.strides[3] != 1 && mask.sizes[3] != 1) return Unsupported("attention with a mask that is not contiguous");
  return absl::OkStatus();
}

}  // namespace

std::string AttentionProblem::Text() const {
  std::string text = absl::StrCat(gradient, causal, has_log_sums, " ", type);
  std::vector<const TensorSpec*> all = {&q, &k, &v, &output, &log_sums, &grad, &grad_q, &grad_k, &grad_v};
  if (mask) all.push_back(&*mask);
  for (const TensorSpec* t : all) {
    absl::StrAppend(&text, " ", absl::StrJoin(t->sizes, ","), "/", absl::StrJoin(t->strides, ","));
  }
  return text;
}

absl::StatusOr<AttentionProblem> AttentionProblemOf(const CallSpec& call) {
  AttentionProblem p;
  p.gradient = call.op == PREHEAT_LIB_ATTENTION_GRAD;
  p.scale = call.scale;
  p.q = call.operands[0], p.k = call.operands[1];
  if (p.q.rank() != 4) return Unsupported("attention of other than four dimensions");
  ASSIGN_OR_RETURN(p.type, cudnn::DataTypeOf(p.q.dtype));
  if (p.type != cudnn::kHalf && p.type != cudnn::kBFloat16) return Unsupported("attention of wide floats");
  for (const EpilogueSpec& step : call.epilogue) {
    switch (step.op) {
      case PREHEAT_LIB_MASK:
        if (p.mask) return Unsupported("attention with two masks");
        RETURN_IF_ERROR(CheckMask(p, step.operand));
        p.mask = step.operand;
        break;
      case PREHEAT_LIB_CAUSAL: p.causal = true; break;
      case PREHEAT_LIB_SOFTMAX:
      case PREHEAT_LIB_SAFE_SOFTMAX: break;  // every row sees something
      case PREHEAT_LIB_VALUES: p.v = step.operand; break;
      case PREHEAT_LIB_GRADIENT: p.grad = step.operand; break;
      case PREHEAT_LIB_OUTPUT: p.output = step.operand; break;
      case PREHEAT_LIB_LOG_SUMS: p.log_sums = step.operand; break;
      default: return Unsupported("attention with a step that cuDNN does not have");
    }
  }
  if (p.gradient) {
    p.grad_q = call.result, p.grad_k = call.more_results[0], p.grad_v = call.more_results[1];
    p.has_log_sums = true;
  } else {
    p.output = call.result;
    if (!call.more_results.empty()) p.log_sums = call.more_results[0], p.has_log_sums = true;
  }
  RETURN_IF_ERROR(CheckPlaces(p));
  return p;
}

}  // namespace preheat::library
