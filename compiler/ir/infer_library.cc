#include "compiler/ir/infer_library.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/status_macros.h"

namespace preheat::ir {
namespace {

absl::Status CheckNumbers(const OpAttrs& a, const TensorType& x, const TensorType& y) {
  if (x.dtype == y.dtype && (IsFloat(x.dtype) || IsInteger(x.dtype))) return absl::OkStatus();
  return a.Fail(absl::StrCat("takes two of one float or integer dtype, not ", x.ToString(), " and ", y.ToString()));
}

absl::StatusOr<TensorType> MatMulType(const OpAttrs& a, const TensorType& x, const TensorType& y) {
  RETURN_IF_ERROR(CheckNumbers(a, x, y));
  int rank = x.rank();
  bool fits = rank >= 2 && y.rank() == rank && x.shape[rank - 1] == y.shape[rank - 2];
  for (int i = 0; fits && i < rank - 2; ++i) fits = x.shape[i] == y.shape[i];
  if (!fits) return a.Fail(absl::StrCat(x.ToString(), " and ", y.ToString(), " do not multiply"));
  TensorType result = x;
  result.shape[rank - 1] = y.shape[rank - 1];
  RETURN_IF_ERROR(a.CheckSizes(result));
  return result;
}

absl::StatusOr<TensorType> ConvType(OpAttrs& a, const TensorType& x, const TensorType& w) {
  RETURN_IF_ERROR(CheckNumbers(a, x, w));
  int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 3 || w.rank() != x.rank()) {
    return a.Fail(absl::StrCat("one to three spatial dimensions are needed in ", x.ToString(), " and ", w.ToString()));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t>* stride, a.Small("stride", spatial, 1));
  ASSIGN_OR_RETURN(const std::vector<int64_t>* padding, a.Small("padding", spatial, 0));
  ASSIGN_OR_RETURN(const std::vector<int64_t>* dilation, a.Small("dilation", spatial, 1));
  ASSIGN_OR_RETURN(const std::vector<int64_t>* output_padding, a.Small("output_padding", spatial, 0));
  ASSIGN_OR_RETURN(int64_t groups, a.Positive("groups"));
  ASSIGN_OR_RETURN(const int64_t* transposed, a.Get<int64_t>("transposed"));
  if (*transposed != 0 && *transposed != 1) return a.Fail("transposed is 0 or 1");
  const Expr& in = w.shape[*transposed ? 0 : 1];
  if (x.shape[1] != (*transposed ? in : in * Expr(groups))) {
    return a.Fail(absl::StrCat("channels of ", x.ToString(), " and ", w.ToString(), " differ (groups: ", groups, ")"));
  }
  std::optional<int64_t> divided = w.shape[0].constant();
  if (divided && *divided % groups != 0) return a.Fail(absl::StrCat(*divided, " channels in ", groups, " groups"));
  TensorType result = x;
  result.shape[1] = *transposed ? w.shape[1] * Expr(groups) : w.shape[0];
  for (int i = 0; i < spatial; ++i) {
    const Expr& size = x.shape[i + 2];
    Expr reach = Expr((*dilation)[i]) * (w.shape[i + 2] - 1);
    if (!*transposed && (*output_padding)[i] != 0) return a.Fail("output_padding is of transposed ones only");
    result.shape[i + 2] = *transposed
                              ? (size - 1) * Expr((*stride)[i]) - 2 * (*padding)[i] + reach + (*output_padding)[i] + 1
                              : Expr::FloorDiv(size + 2 * (*padding)[i] - reach - 1, (*stride)[i]) + 1;
  }
  RETURN_IF_ERROR(a.CheckSizes(result));
  return result;
}

absl::StatusOr<TensorType> FusedBase(OpAttrs& a, absl::Span<const Value> operands) {
  if (operands.size() < 2) return a.Fail("has no two operands for its base");
  ASSIGN_OR_RETURN(const std::string* base, a.Get<std::string>("base"));
  if (*base == "matmul") return MatMulType(a, operands[0].type(), operands[1].type());
  if (*base == "conv") return ConvType(a, operands[0].type(), operands[1].type());
  return a.Fail("base is matmul, conv, attention or attention_grad");
}

// Takes the masks and perhaps causal; returns the names that are left. `extras` loses the masks' operands.
absl::StatusOr<absl::Span<const std::string>> AfterMasks(OpAttrs& a, absl::Span<const Value>& extras,
                                                         const TensorType& scores) {
  ASSIGN_OR_RETURN(const std::vector<std::string>* all, a.Get<std::vector<std::string>>("epilogue"));
  absl::Span<const std::string> steps = *all;
  for (; !steps.empty() && steps[0] == "mask"; steps.remove_prefix(1), extras.remove_prefix(1)) {
    if (extras.empty()) return a.Fail("lacks an operand for mask");
    const TensorType& mask = extras[0].type();
    if (mask.shape != scores.shape || (mask.dtype != scores.dtype && mask.dtype != DType::kBool)) {
      return a.Fail(absl::StrCat("a mask is ", mask.ToString(), " over scores ", scores.ToString()));
    }
  }
  if (!steps.empty() && steps[0] == "causal") steps.remove_prefix(1);
  return steps;
}

// The type of x * y when y may have fewer heads (the dimension before the matrices), each for a group of x's.
absl::StatusOr<TensorType> GroupedMatMulType(OpAttrs& a, const TensorType& x, TensorType y) {
  const int dim = x.rank() - 3;
  if (dim >= 0 && y.rank() == x.rank()) {
    const std::optional<int64_t> heads = x.shape[dim].constant(), own = y.shape[dim].constant();
    if (heads && own && *own > 0 && *heads % *own == 0) y.shape[dim] = x.shape[dim];
  }
  return MatMulType(a, x, y);
}

absl::StatusOr<TensorType> ScoresType(OpAttrs& a, absl::Span<const Value> operands) {
  if (operands.size() < 2) return a.Fail("has no two operands for its base");
  ASSIGN_OR_RETURN(TensorType scores, GroupedMatMulType(a, operands[0].type(), operands[1].type()));
  if (scores.dtype != DType::kF32 && scores.dtype != DType::kF16 && scores.dtype != DType::kBF16) {
    return a.Fail("attention takes f32, f16 and bf16");
  }
  RETURN_IF_ERROR(a.Get<double>("scale").status());
  return scores;
}

TensorType LogSumsType(TensorType scores) {
  scores.dtype = DType::kF32;
  scores.shape.back() = Expr(1);
  return scores;
}

// The type of weights * v, whose heads are those of the keys.
absl::StatusOr<TensorType> ValuesType(OpAttrs& a, const TensorType& scores, const TensorType& keys,
                                      const TensorType& v) {
  for (int i = 0; i < keys.rank() - 2; ++i) {
    if (v.rank() != keys.rank() || v.shape[i] != keys.shape[i]) return a.Fail("values have other heads than keys");
  }
  return GroupedMatMulType(a, scores, v);
}

// The result, and the rows' log sums where two results are declared.
absl::StatusOr<std::vector<TensorType>> AttentionTypes(OpAttrs& a, absl::Span<const Value> operands, size_t results) {
  ASSIGN_OR_RETURN(const TensorType scores, ScoresType(a, operands));
  absl::Span<const Value> extras = operands.subspan(2);
  ASSIGN_OR_RETURN(const absl::Span<const std::string> steps, AfterMasks(a, extras, scores));
  if (steps.size() != 2 || (steps[0] != "softmax" && steps[0] != "safe_softmax") || steps[1] != "values") {
    return a.Fail("attention's steps are masks, causal, a softmax, values");
  }
  if (extras.size() != 1) return a.Fail("has another number of operands than its epilogue takes");
  ASSIGN_OR_RETURN(const TensorType result, ValuesType(a, scores, operands[1].type(), extras[0].type()));
  std::vector<TensorType> types = {result, LogSumsType(scores)};
  if (results < 2) types.pop_back();
  return types;
}

// The gradients of q, k and v.
absl::StatusOr<std::vector<TensorType>> AttentionGradTypes(OpAttrs& a, absl::Span<const Value> operands) {
  ASSIGN_OR_RETURN(const TensorType scores, ScoresType(a, operands));
  absl::Span<const Value> extras = operands.subspan(2);
  ASSIGN_OR_RETURN(const absl::Span<const std::string> steps, AfterMasks(a, extras, scores));
  if (steps != absl::Span<const std::string>{std::vector<std::string>{"values", "gradient", "output", "log_sums"}}) {
    return a.Fail("the gradient's steps are masks, causal, values, gradient, output, log_sums");
  }
  if (extras.size() != 4) return a.Fail("has another number of operands than its epilogue takes");
  ASSIGN_OR_RETURN(const TensorType result, ValuesType(a, scores, operands[1].type(), extras[0].type()));
  if (extras[1].type() != result || extras[2].type() != result || extras[3].type() != LogSumsType(scores)) {
    return a.Fail(absl::StrCat("the gradient of ", result.ToString(), " has operands of other types"));
  }
  TensorType keys = operands[1].type();
  std::swap(keys.shape[keys.rank() - 1], keys.shape[keys.rank() - 2]);
  return std::vector{operands[0].type(), keys, extras[0].type()};
}

absl::Status CheckEpilogue(OpAttrs& a, absl::Span<const Value> extras, const TensorType& result, bool conv) {
  ASSIGN_OR_RETURN(const std::vector<std::string>* epilogue, a.Get<std::vector<std::string>>("epilogue"));
  if (!IsFloat(result.dtype)) return a.Fail("takes floats");
  if (epilogue->empty()) return a.Fail("has an empty epilogue");
  TensorType bias{result.dtype, {conv ? result.shape[1] : result.shape.back()}};
  for (const std::string& step : *epilogue) {
    if (step == "bias" || step == "residual") {
      const TensorType& expected = step == "bias" ? bias : result;
      if (extras.empty()) return a.Fail(absl::StrCat("lacks an operand for ", step));
      if (extras[0].type() != expected) {
        return a.Fail(absl::StrCat(step, " is ", extras[0].type().ToString(), ", not ", expected.ToString()));
      }
      extras.remove_prefix(1);
      continue;
    }
    bool known = false;
    for (absl::string_view name : {"relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"}) known |= step == name;
    if (!known) return a.Fail(absl::StrCat("there is no epilogue ", step.substr(0, 40)));
  }
  if (!extras.empty()) return a.Fail("has more operands than its epilogue takes");
  return absl::OkStatus();
}

absl::Status Expect(const OpAttrs& a, const TensorType& got, const TensorType& expected, absl::string_view what) {
  if (got == expected) return absl::OkStatus();
  return a.Fail(absl::StrCat(what, " is ", got.ToString(), ", not ", expected.ToString()));
}

absl::Status CheckFused(OpAttrs& a, absl::Span<const Value> operands, const std::vector<TensorType>& declared) {
  ASSIGN_OR_RETURN(const std::string* base, a.Get<std::string>("base"));
  std::vector<TensorType> expected;
  if (*base == "attention") {
    ASSIGN_OR_RETURN(expected, AttentionTypes(a, operands, declared.size()));
  } else if (*base == "attention_grad") {
    ASSIGN_OR_RETURN(expected, AttentionGradTypes(a, operands));
  } else {
    ASSIGN_OR_RETURN(TensorType result, FusedBase(a, operands));
    RETURN_IF_ERROR(CheckEpilogue(a, operands.subspan(2), result, *base == "conv"));
    expected = {result};
  }
  if (declared.size() != expected.size()) return a.Fail(absl::StrCat("has ", expected.size(), " results"));
  for (size_t i = 0; i < expected.size(); ++i) RETURN_IF_ERROR(Expect(a, declared[i], expected[i], "a result"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TensorType>> InferMatMul(OpAttrs& a, absl::Span<const Value> operands) {
  ASSIGN_OR_RETURN(TensorType result, MatMulType(a, operands[0].type(), operands[1].type()));
  return std::vector{result};
}

absl::StatusOr<std::vector<TensorType>> InferConv(OpAttrs& a, absl::Span<const Value> operands) {
  ASSIGN_OR_RETURN(TensorType result, ConvType(a, operands[0].type(), operands[1].type()));
  return std::vector{result};
}

absl::Status CheckLibraryDeclared(OpAttrs& a, absl::Span<const Value> operands,
                                  const std::vector<TensorType>& all_declared) {
  if (a.op() == Op::kFused) return CheckFused(a, operands, all_declared);
  const TensorType& declared = all_declared[0];
  // A gradient has the type of what it is the gradient of, so a convolution of both gives grad's type.
  const TensorType& grad = operands[0].type();
  const TensorType& other = operands[1].type();
  bool of_input = a.op() == Op::kConvGradInput;
  absl::StatusOr<TensorType> forward = of_input ? ConvType(a, declared, other) : ConvType(a, other, declared);
  RETURN_IF_ERROR(forward.status());
  return Expect(a, grad, *forward, "grad");
}

}  // namespace preheat::ir
