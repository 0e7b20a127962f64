#include "kernels/library/call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::library {
namespace {

constexpr int kMaxRank = 16;
constexpr int kMaxSpatial = 3;
constexpr int64_t kMaxBroadcast = int64_t{1} << 26;
constexpr int64_t kMaxExtent = int64_t{1} << 47;  // elements that a tensor may reach over

absl::Status Bad(absl::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "invalid_library_call",
                    .message = std::string(message),
                    .where = "",
                    .fix = "report this: the compiler wrote a call that cannot be"});
}

std::string Text(const TensorSpec& t) { return absl::StrCat("[", absl::StrJoin(t.sizes, ", "), "]"); }

// Elements between the first and the last, or -1 when it is more than any memory holds.
int64_t Extent(const TensorSpec& t) {
  int64_t reach = 0;
  for (int i = 0; i < t.rank(); ++i) {
    int64_t span = 0;
    if (t.sizes[i] > kMaxExtent || __builtin_mul_overflow(std::max<int64_t>(t.sizes[i] - 1, 0), t.strides[i], &span) ||
        __builtin_add_overflow(reach, span, &reach) || reach > kMaxExtent) {
      return -1;
    }
  }
  return reach;
}

absl::Status CheckTensor(const TensorSpec& t, int32_t dtype, absl::string_view what) {
  if (t.dtype != dtype) return Bad(absl::StrCat(what, " has another dtype than the result"));
  if (t.rank() > kMaxRank || t.sizes.size() != t.strides.size()) return Bad(absl::StrCat(what, " has a bad rank"));
  for (int i = 0; i < t.rank(); ++i) {
    if (t.sizes[i] < 0 || t.strides[i] < 0) return Bad(absl::StrCat(what, " has a negative size or stride"));
  }
  for (int i = 0; i < t.rank(); ++i) {
    // A broadcast has no memory behind it that would bound its size.
    if (t.strides[i] == 0 && t.sizes[i] > kMaxBroadcast) return Bad(absl::StrCat(what, " broadcasts too far"));
  }
  if (Extent(t) < 0) return Bad(absl::StrCat(what, " is larger than any memory"));
  return absl::OkStatus();
}

// No two indices at one address: sorted by stride, each stride passes over all that the smaller ones reach.
bool Injective(const TensorSpec& t) {
  if (t.elements() == 0) return true;
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (int i = 0; i < t.rank(); ++i) {
    if (t.sizes[i] > 1) dims.push_back({t.strides[i], t.sizes[i]});
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return false;
    reach += stride * (size - 1);  // cannot overflow: CheckTensor has bounded the extent
  }
  return true;
}

absl::Status CheckMatMul(const CallSpec& call) {
  const TensorSpec &a = call.operands[0], &b = call.operands[1], &c = call.result;
  const int rank = c.rank();
  if (rank < 2 || a.rank() != rank || b.rank() != rank) return Bad("matmul: ranks differ or are under 2");
  bool fits = a.sizes[rank - 1] == b.sizes[rank - 2] && c.sizes[rank - 2] == a.sizes[rank - 2] &&
              c.sizes[rank - 1] == b.sizes[rank - 1];
  for (int i = 0; i < rank - 2; ++i) fits = fits && a.sizes[i] == c.sizes[i] && b.sizes[i] == c.sizes[i];
  if (!fits) return Bad(absl::StrCat("matmul: ", Text(a), " x ", Text(b), " is not ", Text(c)));
  return absl::OkStatus();
}

struct ConvTensors {
  const TensorSpec *x, *w, *y;
};

// x, w and y of the plain convolution that a convolution or gradient belongs to.
ConvTensors Roles(const CallSpec& call) {
  const TensorSpec &a = call.operands[0], &b = call.operands[1], &r = call.result;
  ConvTensors roles{&a, &b, &r};
  if (call.op == PREHEAT_LIB_CONV_GRAD_INPUT) roles = {&r, &b, &a};
  if (call.op == PREHEAT_LIB_CONV_GRAD_WEIGHT) roles = {&b, &r, &a};
  if (call.transposed) std::swap(roles.x, roles.y);
  return roles;
}

absl::Status CheckConv(const CallSpec& call) {
  const auto [x, w, y] = Roles(call);
  const int spatial = call.spatial(), rank = spatial + 2;
  if (spatial < 1 || spatial > kMaxSpatial) return Bad("conv: one to three spatial dimensions");
  if (x->rank() != rank || w->rank() != rank || y->rank() != rank) return Bad("conv: ranks differ");
  if (call.padding.size() != call.stride.size() || call.dilation.size() != call.stride.size()) {
    return Bad("conv: stride, padding and dilation differ in length");
  }
  if (call.groups < 1 || x->sizes[0] != y->sizes[0] || w->sizes[0] != y->sizes[1] ||
      w->sizes[1] * call.groups != x->sizes[1] || w->sizes[0] % call.groups != 0) {
    return Bad(absl::StrCat("conv: channels or batch disagree: ", Text(*x), ", ", Text(*w), ", ", Text(*y)));
  }
  constexpr int64_t kLimit = int64_t{1} << 31;
  for (int d = 0; d < spatial; ++d) {
    const int64_t in = x->sizes[d + 2], window = w->sizes[d + 2], out = y->sizes[d + 2];
    const int64_t stride = call.stride[d], padding = call.padding[d], dilation = call.dilation[d];
    if (stride < 1 || stride > kLimit || padding < 0 || padding > kLimit || dilation < 1 || dilation > kLimit ||
        in > kLimit || window < 1 || window > kLimit) {
      return Bad("conv: an attribute is out of range");
    }
    const int64_t span = in + 2 * padding - dilation * (window - 1) - 1;
    // Fewer results than windows: the output padding of a transposed convolution may be a stride or more.
    if (span < 0 || out > span / stride + 1) {
      return Bad(absl::StrCat("conv: spatial dimension ", d, " of ", Text(*y), " does not follow from ", Text(*x)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEpilogue(const CallSpec& call, const EpilogueSpec& step) {
  if (step.op < PREHEAT_LIB_BIAS || step.op > PREHEAT_LIB_SIGMOID) return Bad("unknown epilogue");
  const bool real = call.result.dtype >= static_cast<int32_t>(DType::kF16);
  if (!real && step.op > PREHEAT_LIB_RELU) return Bad("a float epilogue of an integer call");
  if (!TakesOperand(step.op)) return absl::OkStatus();
  RETURN_IF_ERROR(CheckTensor(step.operand, call.result.dtype, "an epilogue's operand"));
  if (step.op == PREHEAT_LIB_RESIDUAL && step.operand.sizes != call.result.sizes) return Bad("residual: another shape");
  if (step.op == PREHEAT_LIB_RESIDUAL) return absl::OkStatus();
  if (call.op == PREHEAT_LIB_CONV_GRAD_WEIGHT) return Bad("a bias on a weight's gradient");
  const bool last = call.op == PREHEAT_LIB_MATMUL;
  const int64_t channels = last ? call.result.sizes.back() : call.result.sizes[1];
  if (step.operand.rank() != 1 || step.operand.sizes[0] != channels) return Bad("bias: not one value a channel");
  return absl::OkStatus();
}

// A mask lies over all scores: of the result's dtype, or bool.
absl::Status CheckMask(const CallSpec& call, const TensorSpec& mask) {
  const TensorSpec& q = call.operands[0];
  const bool chooses = mask.dtype == static_cast<int32_t>(DType::kBool);
  RETURN_IF_ERROR(CheckTensor(mask, chooses ? mask.dtype : call.result.dtype, "a mask"));
  std::vector<int64_t> scores(q.sizes.begin(), q.sizes.end() - 1);
  scores.push_back(call.operands[1].sizes.back());
  return mask.sizes == scores ? absl::OkStatus() : Bad("attention: a mask has not the shape of the scores");
}

// The steps in their order: masks, then perhaps causal, and the tail, which ends the list.
absl::Status CheckAttentionSteps(const CallSpec& call, absl::Span<const int32_t> tail) {
  size_t i = 0;
  for (; i < call.epilogue.size() && call.epilogue[i].op == PREHEAT_LIB_MASK; ++i) {
    RETURN_IF_ERROR(CheckMask(call, call.epilogue[i].operand));
  }
  if (i < call.epilogue.size() && call.epilogue[i].op == PREHEAT_LIB_CAUSAL) ++i;
  bool fits = call.epilogue.size() == i + tail.size();
  for (size_t j = 0; fits && j < tail.size(); ++j) {
    const int32_t op = call.epilogue[i + j].op;
    fits = op == tail[j] || (op == PREHEAT_LIB_SAFE_SOFTMAX && tail[j] == PREHEAT_LIB_SOFTMAX);
  }
  return fits ? absl::OkStatus() : Bad("attention: steps are missing or out of order");
}

// t is [batch..., rows, columns], the batch that of `like`.
absl::Status CheckStack(const TensorSpec& t, DType dtype, const TensorSpec& like, int64_t rows, int64_t columns) {
  RETURN_IF_ERROR(CheckTensor(t, static_cast<int32_t>(dtype), "attention: a matrix"));
  std::vector<int64_t> sizes(like.sizes.begin(), like.sizes.end() - 2);
  sizes.insert(sizes.end(), {rows, columns});
  return t.sizes == sizes ? absl::OkStatus() : Bad(absl::StrCat("attention: ", Text(t), " beside ", Text(like)));
}

absl::Status CheckResult(const TensorSpec& t, DType dtype, const TensorSpec& like, int64_t rows, int64_t columns) {
  RETURN_IF_ERROR(CheckStack(t, dtype, like, rows, columns));
  return Injective(t) ? absl::OkStatus() : Bad("the result's strides make elements overlap");
}

// Keys lie beside queries, each of their heads (the dimension before the matrices) for a group of the queries' heads.
absl::Status CheckHeads(const TensorSpec& k, const TensorSpec& q) {
  const int dim = q.rank() - 3;
  for (int d = 0; d <= dim; ++d) {
    const bool grouped = d == dim && k.sizes[d] > 0 && q.sizes[d] % k.sizes[d] == 0;
    if (k.sizes[d] != q.sizes[d] && !grouped) {
      return Bad(absl::StrCat("attention: ", Text(k), " beside ", Text(q)));
    }
  }
  return absl::OkStatus();
}

// REQUIRES: q and k have two dimensions or more. Log sums are [batch..., m, 1] in f32.
absl::Status CheckAttentionShapes(const CallSpec& call) {
  const TensorSpec &q = call.operands[0], &k = call.operands[1];
  const int64_t m = q.sizes[q.rank() - 2], e = q.sizes.back(), n = k.sizes.back();
  const bool forward = call.op == PREHEAT_LIB_ATTENTION;
  const TensorSpec& v = call.epilogue[call.epilogue.size() - (forward ? 1 : 4)].operand;
  if (v.rank() != q.rank()) return Bad("attention: ranks differ");
  const DType dtype = static_cast<DType>(call.result.dtype);
  const int64_t f = v.sizes.back();
  RETURN_IF_ERROR(CheckStack(q, dtype, q, m, e));
  RETURN_IF_ERROR(CheckHeads(k, q));
  RETURN_IF_ERROR(CheckStack(k, dtype, k, e, n));
  RETURN_IF_ERROR(CheckStack(v, dtype, k, n, f));
  if (forward) {
    RETURN_IF_ERROR(CheckResult(call.result, dtype, q, m, f));
    if (call.more_results.size() > 1) return Bad("attention: too many results");
    for (const TensorSpec& sums : call.more_results) RETURN_IF_ERROR(CheckResult(sums, DType::kF32, q, m, 1));
    return absl::OkStatus();
  }
  const EpilogueSpec* tail = &call.epilogue[call.epilogue.size() - 3];
  RETURN_IF_ERROR(CheckStack(tail[0].operand, dtype, q, m, f));
  RETURN_IF_ERROR(CheckStack(tail[1].operand, dtype, q, m, f));
  RETURN_IF_ERROR(CheckStack(tail[2].operand, DType::kF32, q, m, 1));
  if (call.more_results.size() != 2) return Bad("attention: its gradient has three results");
  RETURN_IF_ERROR(CheckResult(call.result, dtype, q, m, e));
  RETURN_IF_ERROR(CheckResult(call.more_results[0], dtype, k, n, e));
  return CheckResult(call.more_results[1], dtype, k, n, f);
}

absl::Status CheckAttention(const CallSpec& call) {
  const DType dtype = static_cast<DType>(call.result.dtype);
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) return Bad("attention: f32, f16 or bf16");
  if (call.operands[0].rank() < 2 || call.operands[1].rank() != call.operands[0].rank()) {
    return Bad("attention: ranks differ or are under 2");
  }
  RETURN_IF_ERROR(call.op == PREHEAT_LIB_ATTENTION
                      ? CheckAttentionSteps(call, {PREHEAT_LIB_SOFTMAX, PREHEAT_LIB_VALUES})
                      : CheckAttentionSteps(call, {PREHEAT_LIB_VALUES, PREHEAT_LIB_GRADIENT, PREHEAT_LIB_OUTPUT,
                                                   PREHEAT_LIB_LOG_SUMS}));
  return CheckAttentionShapes(call);
}

}  // namespace

int64_t TensorSpec::elements() const {
  int64_t n = 1;
  for (int64_t size : sizes) {
    if (size == 0) return 0;
    if (__builtin_mul_overflow(n, size, &n)) n = INT64_MAX;
  }
  return n;
}

bool TakesOperand(int32_t op) {
  return op == PREHEAT_LIB_BIAS || op == PREHEAT_LIB_RESIDUAL || op == PREHEAT_LIB_MASK || op >= PREHEAT_LIB_VALUES;
}

absl::Status CheckCall(const CallSpec& call) {
  if (call.op < PREHEAT_LIB_MATMUL || call.op > PREHEAT_LIB_ATTENTION_GRAD)
    return Bad("no provider knows this operation");
  const int32_t dtype = call.result.dtype;
  if (dtype < static_cast<int32_t>(DType::kU8) || dtype > static_cast<int32_t>(DType::kF64)) {
    return Bad("no library computes with this dtype");
  }
  RETURN_IF_ERROR(CheckTensor(call.operands[0], dtype, "operand 0"));
  RETURN_IF_ERROR(CheckTensor(call.operands[1], dtype, "operand 1"));
  RETURN_IF_ERROR(CheckTensor(call.result, dtype, "the result"));
  if (!Injective(call.result)) return Bad("the result's strides make elements overlap");
  if (call.epilogue.size() > 16) return Bad("more than 16 epilogues");
  if (call.op >= PREHEAT_LIB_ATTENTION) return CheckAttention(call);
  if (!call.more_results.empty()) return Bad("more results than one");
  RETURN_IF_ERROR(call.op == PREHEAT_LIB_MATMUL ? CheckMatMul(call) : CheckConv(call));
  for (const EpilogueSpec& step : call.epilogue) RETURN_IF_ERROR(CheckEpilogue(call, step));
  return absl::OkStatus();
}

CallSpec NormalizeCall(CallSpec call, bool* swapped) {
  *swapped = false;
  if (!call.transposed || call.op == PREHEAT_LIB_MATMUL) return call;
  call.transposed = false;
  switch (call.op) {
    case PREHEAT_LIB_CONV: call.op = PREHEAT_LIB_CONV_GRAD_INPUT; break;
    case PREHEAT_LIB_CONV_GRAD_INPUT: call.op = PREHEAT_LIB_CONV; break;
    default:
      std::swap(call.operands[0], call.operands[1]);
      std::swap(call.frozen[0], call.frozen[1]);
      *swapped = true;
  }
  return call;
}

namespace {
preheat_lib_tensor AsC(const TensorSpec& t) { return {t.dtype, t.rank(), t.sizes.data(), t.strides.data()}; }
}  // namespace

preheat_lib_call AsC(const CallSpec& call, std::vector<preheat_lib_epilogue>* epilogue) {
  epilogue->clear();
  for (const EpilogueSpec& step : call.epilogue) epilogue->push_back({step.op, AsC(step.operand)});
  preheat_lib_call c = {};
  c.op = call.op;
  c.operands[0] = AsC(call.operands[0]);
  c.operands[1] = AsC(call.operands[1]);
  c.result = AsC(call.result);
  c.spatial = call.spatial();
  c.stride = call.stride.data();
  c.padding = call.padding.data();
  c.dilation = call.dilation.data();
  c.groups = call.groups;
  c.epilogue = epilogue->data();
  c.num_epilogue = static_cast<int32_t>(epilogue->size());
  c.frozen[0] = call.frozen[0];
  c.frozen[1] = call.frozen[1];
  return c;
}

}  // namespace preheat::library
