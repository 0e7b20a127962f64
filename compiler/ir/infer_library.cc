#include "compiler/ir/infer_library.h"

#include <string>

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
  return a.Fail("base is matmul, conv or attention");
}

// Masks, then perhaps causal, one softmax, the values, whose type is returned.
absl::StatusOr<TensorType> CheckAttentionSteps(OpAttrs& a, absl::Span<const Value> extras, const TensorType& scores) {
  ASSIGN_OR_RETURN(const std::vector<std::string>* steps, a.Get<std::vector<std::string>>("epilogue"));
  size_t i = 0;
  const auto is = [&](absl::string_view name) { return i < steps->size() && (*steps)[i] == name; };
  for (; is("mask"); ++i, extras.remove_prefix(1)) {
    if (extras.empty()) return a.Fail("lacks an operand for mask");
    const TensorType& mask = extras[0].type();
    if (mask.shape != scores.shape || (mask.dtype != scores.dtype && mask.dtype != DType::kBool)) {
      return a.Fail(absl::StrCat("a mask is ", mask.ToString(), " over scores ", scores.ToString()));
    }
  }
  if (is("causal")) ++i;
  if (!is("softmax") && !is("safe_softmax")) return a.Fail("attention's steps are masks, causal, a softmax, values");
  ++i;
  if (!is("values") || i + 1 != steps->size()) return a.Fail("attention ends in values");
  if (extras.size() != 1) return a.Fail("has another number of operands than its epilogue takes");
  return extras[0].type();
}

absl::StatusOr<TensorType> AttentionType(OpAttrs& a, absl::Span<const Value> operands) {
  if (operands.size() < 2) return a.Fail("has no two operands for its base");
  ASSIGN_OR_RETURN(TensorType scores, MatMulType(a, operands[0].type(), operands[1].type()));
  if (scores.dtype != DType::kF32) return a.Fail("attention takes f32");
  RETURN_IF_ERROR(a.Get<double>("scale").status());
  ASSIGN_OR_RETURN(TensorType values, CheckAttentionSteps(a, operands.subspan(2), scores));
  return MatMulType(a, scores, values);
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

}  // namespace

absl::StatusOr<std::vector<TensorType>> InferMatMul(OpAttrs& a, absl::Span<const Value> operands) {
  ASSIGN_OR_RETURN(TensorType result, MatMulType(a, operands[0].type(), operands[1].type()));
  return std::vector{result};
}

absl::StatusOr<std::vector<TensorType>> InferConv(OpAttrs& a, absl::Span<const Value> operands) {
  ASSIGN_OR_RETURN(TensorType result, ConvType(a, operands[0].type(), operands[1].type()));
  return std::vector{result};
}

absl::Status CheckLibraryDeclared(OpAttrs& a, absl::Span<const Value> operands, const TensorType& declared) {
  if (a.op() == Op::kFused) {
    ASSIGN_OR_RETURN(const std::string* base, a.Get<std::string>("base"));
    if (*base == "attention") {
      ASSIGN_OR_RETURN(TensorType result, AttentionType(a, operands));
      return Expect(a, declared, result, "the result");
    }
    ASSIGN_OR_RETURN(TensorType result, FusedBase(a, operands));
    RETURN_IF_ERROR(CheckEpilogue(a, operands.subspan(2), result, *base == "conv"));
    return Expect(a, declared, result, "the result");
  }
  // A gradient has the type of what it is the gradient of, so a convolution of both gives grad's type.
  const TensorType& grad = operands[0].type();
  const TensorType& other = operands[1].type();
  bool of_input = a.op() == Op::kConvGradInput;
  absl::StatusOr<TensorType> forward = of_input ? ConvType(a, declared, other) : ConvType(a, other, declared);
  RETURN_IF_ERROR(forward.status());
  return Expect(a, grad, *forward, "grad");
}

}  // namespace preheat::ir
