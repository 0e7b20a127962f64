#include "kernels/library/call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

// What follows the scores: masks, then perhaps causal, one softmax, the values.
absl::Status CheckAttentionSteps(const CallSpec& call) {
  int last = PREHEAT_LIB_MASK;
  for (const EpilogueSpec& step : call.epilogue) {
    const bool again = step.op == PREHEAT_LIB_MASK && last == PREHEAT_LIB_MASK;
    const bool after_softmax = last == PREHEAT_LIB_SOFTMAX || last == PREHEAT_LIB_SAFE_SOFTMAX;
    const bool forward =
        step.op > last && step.op <= PREHEAT_LIB_VALUES && after_softmax == (step.op == PREHEAT_LIB_VALUES);
    if (!again && !forward) return Bad("attention: steps out of order");
    if (step.op == PREHEAT_LIB_MASK) RETURN_IF_ERROR(CheckMask(call, step.operand));
    last = step.op;
  }
  return last == PREHEAT_LIB_VALUES ? absl::OkStatus() : Bad("attention: no values");
}

absl::Status CheckAttention(const CallSpec& call) {
  if (call.result.dtype != static_cast<int32_t>(DType::kF32)) return Bad("attention: f32 only");
  const TensorSpec &q = call.operands[0], &k = call.operands[1], &out = call.result;
  const int rank = out.rank();
  if (rank < 2 || q.rank() != rank || k.rank() != rank) return Bad("attention: ranks differ or are under 2");
  RETURN_IF_ERROR(CheckAttentionSteps(call));
  const TensorSpec& v = call.epilogue.back().operand;
  RETURN_IF_ERROR(CheckTensor(v, out.dtype, "the values"));
  if (v.rank() != rank) return Bad("attention: ranks differ");
  bool fits = q.sizes[rank - 1] == k.sizes[rank - 2] && k.sizes[rank - 1] == v.sizes[rank - 2] &&
              q.sizes[rank - 2] == out.sizes[rank - 2] && v.sizes[rank - 1] == out.sizes[rank - 1];
  for (int i = 0; i < rank - 2; ++i) {
    fits = fits && q.sizes[i] == out.sizes[i] && k.sizes[i] == out.sizes[i] && v.sizes[i] == out.sizes[i];
  }
  if (fits) return absl::OkStatus();
  return Bad(absl::StrCat("attention: ", Text(q), " x ", Text(k), " x ", Text(v), " is not ", Text(out)));
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
  return op == PREHEAT_LIB_BIAS || op == PREHEAT_LIB_RESIDUAL || op == PREHEAT_LIB_MASK || op == PREHEAT_LIB_VALUES;
}

absl::Status CheckCall(const CallSpec& call) {
  if (call.op < PREHEAT_LIB_MATMUL || call.op > PREHEAT_LIB_ATTENTION) return Bad("no provider knows this operation");
  const int32_t dtype = call.result.dtype;
  if (dtype < static_cast<int32_t>(DType::kU8) || dtype > static_cast<int32_t>(DType::kF64)) {
    return Bad("no library computes with this dtype");
  }
  RETURN_IF_ERROR(CheckTensor(call.operands[0], dtype, "operand 0"));
  RETURN_IF_ERROR(CheckTensor(call.operands[1], dtype, "operand 1"));
  RETURN_IF_ERROR(CheckTensor(call.result, dtype, "the result"));
  if (!Injective(call.result)) return Bad("the result's strides make elements overlap");
  if (call.epilogue.size() > 16) return Bad("more than 16 epilogues");
  if (call.op == PREHEAT_LIB_ATTENTION) return CheckAttention(call);
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
