#include "kernels/library/cuda/cudnn_attention.h"

#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/support/status_macros.h"
#include "kernels/device/gpus.h"
#include "kernels/library/cuda/algorithm.h"
#include "kernels/library/cuda/no_call.h"
#include "kernels/library/cuda/plan_files.h"

namespace preheat::library {
namespace {

using cudnn::Graph;
using cudnn::Place;
using cudnn::Plan;
using cudnn::Unsupported;

// Uids of what has memory, and of numbers.
enum Uid : int64_t {
  kQ = 1,
  kK,
  kV,
  kOutput,
  kLogSums,
  kGradient,
  kGradQ,
  kGradK,
  kGradV,
  kScale,
  kHidden,
  kMask,
  kOne,
  kDots,      // of the scratch memory: the rows' sums of gradient * output
  kWideGradQ  // and dq in f32
};

// What one call is to cuDNN.
struct Problem {
  bool gradient = false, causal = false;
  double scale = 1;
  cudnn::DataType type = cudnn::kBFloat16;
  TensorSpec q, k, v;  // k as [b, h, width, columns]
  TensorSpec output, log_sums;
  TensorSpec grad, grad_q, grad_k, grad_v;  // of a gradient
  std::optional<TensorSpec> mask;           // added to the scores
  bool has_log_sums = false;
  std::string stored;  // the plan that the artifact brings

  int64_t batch() const { return q.sizes[0]; }
  int64_t heads() const { return q.sizes[1]; }
  int64_t rows() const { return q.sizes[2]; }
  int64_t columns() const { return k.sizes[3]; }
  TensorSpec Scores() const { return {0, {batch(), heads(), rows(), columns()}, {}}; }
  TensorSpec RowSums() const { return {0, {batch(), heads(), rows(), 1}, {}}; }
  int64_t dots_bytes() const { return gradient ? (batch() * heads() * rows() * 4 + 255) / 256 * 256 : 0; }
  int64_t wide_bytes() const { return gradient ? (q.elements() * 4 + 255) / 256 * 256 : 0; }

  std::string Text() const {
    std::string text = absl::StrCat(gradient, causal, has_log_sums, " ", type);
    std::vector<const TensorSpec*> all = {&q, &k, &v, &output, &log_sums, &grad, &grad_q, &grad_k, &grad_v};
    if (mask) all.push_back(&*mask);
    for (const TensorSpec* t : all) {
      absl::StrAppend(&text, " ", absl::StrJoin(t->sizes, ","), "/", absl::StrJoin(t->strides, ","));
    }
    return text;
  }
};

absl::Status CheckRows(const TensorSpec& t) {
  if (t.rank() != 4) return Unsupported("attention of other than four dimensions");
  if (t.strides[3] != 1 && t.sizes[3] != 1) return Unsupported("attention whose rows are not contiguous");
  for (int d = 0; d < 3; ++d) {
    if (t.sizes[d] != 1 && t.strides[d] % 8 != 0) return Unsupported("attention whose rows are not aligned");
  }
  return absl::OkStatus();
}

absl::Status CheckPlaces(const Problem& p) {
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
absl::Status CheckMask(const Problem& p, const TensorSpec& mask) {
  if (mask.dtype != p.q.dtype) return Unsupported("attention with a mask of another type");
  if (mask.strides[3] != 1 && mask.sizes[3] != 1) return Unsupported("attention with a mask that is not contiguous");
  return absl::OkStatus();
}

absl::StatusOr<Problem> ProblemOf(const CallSpec& call) {
  Problem p;
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

// Writes the graph of a problem down.
class Describer {
 public:
  Describer(const Problem& problem, Graph& graph) : p_(problem), g_(graph) {}

  absl::Status Run() {
    ASSIGN_OR_RETURN(q_, g_.InMemory(kQ, p_.q, p_.type));
    ASSIGN_OR_RETURN(k_, g_.InMemory(kK, p_.k, p_.type));
    ASSIGN_OR_RETURN(scale_, g_.Number(kScale));
    return p_.gradient ? Backward() : Forward();
  }

 private:
  using Tensor = Graph::Tensor;

  absl::StatusOr<Tensor> Apply(cudnn::PointwiseMode mode, Tensor x, Tensor other, const TensorSpec& like) {
    ASSIGN_OR_RETURN(Tensor y, g_.Virtual(like, cudnn::kFloat));
    RETURN_IF_ERROR(g_.Pointwise(mode, x, y, {.other = other}));
    return y;
  }
  absl::StatusOr<Tensor> Sum(cudnn::ReductionMode mode, Tensor x) {
    ASSIGN_OR_RETURN(Tensor y, g_.Virtual(p_.RowSums(), cudnn::kFloat));
    RETURN_IF_ERROR(g_.Reduce(mode, x, y));
    return y;
  }

  // q * k * scale + mask.
  absl::StatusOr<Tensor> Scores() {
    ASSIGN_OR_RETURN(Tensor products, g_.Virtual(p_.Scores(), cudnn::kFloat));
    RETURN_IF_ERROR(g_.MatMul(q_, k_, products));
    ASSIGN_OR_RETURN(Tensor scores, Apply(cudnn::kMul, products, scale_, p_.Scores()));
    if (!p_.mask) return scores;
    ASSIGN_OR_RETURN(Tensor mask, g_.InMemory(kMask, *p_.mask, p_.type));
    return Apply(cudnn::kAdd, scores, mask, p_.Scores());
  }

  // Row i sees the columns up to i.
  absl::StatusOr<Tensor> Masked(Tensor scores) {
    if (!p_.causal) return scores;
    ASSIGN_OR_RETURN(Tensor row, g_.Virtual(p_.Scores(), cudnn::kInt32));
    ASSIGN_OR_RETURN(Tensor column, g_.Virtual(p_.Scores(), cudnn::kInt32));
    ASSIGN_OR_RETURN(Tensor sees, g_.Virtual(p_.Scores(), cudnn::kBool));
    ASSIGN_OR_RETURN(Tensor hidden, g_.Number(kHidden));
    ASSIGN_OR_RETURN(Tensor masked, g_.Virtual(p_.Scores(), cudnn::kFloat));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kIndex, scores, row, {.axis = 2}));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kIndex, scores, column, {.axis = 3}));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kGreaterOrEqual, row, sees, {.other = column, .compute = cudnn::kBool}));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kSelect, scores, masked, {.other = hidden, .condition = sees}));
    return masked;
  }

  absl::Status Forward() {
    ASSIGN_OR_RETURN(Tensor scores, Scores());
    ASSIGN_OR_RETURN(scores, Masked(scores));
    ASSIGN_OR_RETURN(Tensor max, Sum(cudnn::kMax, scores));
    ASSIGN_OR_RETURN(Tensor below, Apply(cudnn::kSub, scores, max, p_.Scores()));
    ASSIGN_OR_RETURN(Tensor powers, Apply(cudnn::kExp, below, nullptr, p_.Scores()));
    ASSIGN_OR_RETURN(Tensor sum, Sum(cudnn::kSum, powers));
    // Engines know the softmax by its log sums, wanted or not.
    ASSIGN_OR_RETURN(Tensor log, Apply(cudnn::kLog, sum, nullptr, p_.RowSums()));
    ASSIGN_OR_RETURN(Tensor log_sums, p_.has_log_sums ? g_.InMemory(kLogSums, p_.log_sums, cudnn::kFloat)
                                                      : g_.Virtual(p_.RowSums(), cudnn::kFloat));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kAdd, max, log_sums, {.other = log}));
    ASSIGN_OR_RETURN(Tensor weights, g_.Virtual(p_.Scores(), p_.type));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kDiv, powers, weights, {.other = sum}));
    ASSIGN_OR_RETURN(Tensor v, g_.InMemory(kV, p_.v, p_.type));
    ASSIGN_OR_RETURN(Tensor output, g_.InMemory(kOutput, p_.output, p_.type));
    return g_.MatMul(weights, v, output);
  }

  absl::Status Backward() {
    ASSIGN_OR_RETURN(gradient_, g_.InMemory(kGradient, p_.grad, p_.type));
    ASSIGN_OR_RETURN(Tensor dots, Dots());
    ASSIGN_OR_RETURN(Tensor scores, Scores());
    ASSIGN_OR_RETURN(Tensor log_sums, g_.InMemory(kLogSums, p_.log_sums, cudnn::kFloat));
    ASSIGN_OR_RETURN(scores, Apply(cudnn::kSub, scores, log_sums, p_.Scores()));
    ASSIGN_OR_RETURN(scores, Masked(scores));
    ASSIGN_OR_RETURN(Tensor weights, Apply(cudnn::kExp, scores, nullptr, p_.Scores()));
    RETURN_IF_ERROR(Transposed(weights, gradient_, kGradV, p_.grad_v));
    ASSIGN_OR_RETURN(Tensor slopes, Slopes(weights, dots));
    RETURN_IF_ERROR(Transposed(slopes, q_, kGradK, p_.grad_k));
    return GradientOfQ(slopes);
  }

  // The rows' sums of gradient * output, in memory.
  absl::StatusOr<Tensor> Dots() {
    TensorSpec like = p_.output;
    like.strides.clear();
    ASSIGN_OR_RETURN(Tensor output, g_.InMemory(kOutput, p_.output, p_.type));
    ASSIGN_OR_RETURN(Tensor terms, Apply(cudnn::kMul, gradient_, output, like));
    ASSIGN_OR_RETURN(Tensor sums, Sum(cudnn::kSum, terms));
    ASSIGN_OR_RETURN(Tensor one, g_.Number(kOne));
    TensorSpec dense = p_.RowSums();
    dense.strides = {p_.heads() * p_.rows(), p_.rows(), 1, 1};
    ASSIGN_OR_RETURN(Tensor dots, g_.InMemory(kDots, dense, cudnn::kFloat));
    RETURN_IF_ERROR(g_.Pointwise(cudnn::kMul, sums, dots, {.other = one}));
    return dots;
  }

  // weights * (gradient v' - dots) * scale.
  absl::StatusOr<Tensor> Slopes(Tensor weights, Tensor dots) {
    TensorSpec swapped = p_.v;
    std::swap(swapped.sizes[2], swapped.sizes[3]), std::swap(swapped.strides[2], swapped.strides[3]);
    ASSIGN_OR_RETURN(Tensor v, g_.InMemory(kV, swapped, p_.type));
    ASSIGN_OR_RETURN(Tensor now, g_.Virtual(p_.Scores(), cudnn::kFloat));
    RETURN_IF_ERROR(g_.MatMul(gradient_, v, now));
    ASSIGN_OR_RETURN(now, Apply(cudnn::kSub, now, dots, p_.Scores()));
    ASSIGN_OR_RETURN(now, Apply(cudnn::kMul, now, weights, p_.Scores()));
    return Apply(cudnn::kMul, now, scale_, p_.Scores());
  }

  // matrix' * right, into a result with its heads or, summed, with fewer.
  absl::Status Transposed(Tensor matrix, Tensor right, Uid uid, const TensorSpec& result) {
    TensorSpec swapped = p_.Scores();
    std::swap(swapped.sizes[2], swapped.sizes[3]);
    const int64_t m = p_.rows(), n = p_.columns();
    swapped.strides = {p_.heads() * m * n, m * n, 1, n};
    ASSIGN_OR_RETURN(Tensor turned, g_.Virtual(swapped, p_.type));
    RETURN_IF_ERROR(g_.Reshape(matrix, turned));
    ASSIGN_OR_RETURN(Tensor to, g_.InMemory(uid, result, p_.type));
    if (result.sizes[1] == p_.heads()) return g_.MatMul(turned, right, to);
    TensorSpec all{0, result.sizes, {}};
    all.sizes[1] = p_.heads();
    ASSIGN_OR_RETURN(Tensor each, g_.Virtual(all, p_.type));
    RETURN_IF_ERROR(g_.MatMul(turned, right, each));
    return g_.Reduce(cudnn::kSum, each, to);
  }

  absl::Status GradientOfQ(Tensor slopes) {
    TensorSpec keys = p_.k;
    std::swap(keys.sizes[2], keys.sizes[3]), std::swap(keys.strides[2], keys.strides[3]);
    ASSIGN_OR_RETURN(Tensor turned, g_.Virtual(keys, p_.type));
    RETURN_IF_ERROR(g_.Reshape(k_, turned));
    TensorSpec dense{0, p_.q.sizes, {0, p_.rows() * p_.q.sizes[3], p_.q.sizes[3], 1}};
    dense.strides[0] = p_.heads() * dense.strides[1];
    ASSIGN_OR_RETURN(Tensor wide, g_.InMemory(kWideGradQ, dense, cudnn::kFloat));
    RETURN_IF_ERROR(g_.MatMul(slopes, turned, wide));
    ASSIGN_OR_RETURN(Tensor to, g_.InMemory(kGradQ, p_.grad_q, p_.type));
    return g_.Pointwise(cudnn::kIdentity, wide, to, {});
  }

  const Problem& p_;
  Graph& g_;
  Tensor q_ = nullptr, k_ = nullptr, scale_ = nullptr, gradient_ = nullptr;
};

// Before it, scratch memory is to be zeroed and masks are other numbers.
constexpr size_t kLeastVersion = 91000;

absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(const cudnn::Api& api, const Place& place, const Problem& p) {
  if (api.version() < kLeastVersion) {
    return Unsupported(absl::StrCat("attention by cuDNN ", api.version(), ", which is older than 9.10"));
  }
  Graph graph(api);
  RETURN_IF_ERROR(Describer(p, graph).Run());
  return graph.MakePlan(place, {{},
                                false,
                                absl::StrCat("attention", p.gradient ? "'s gradient" : "", " of [",
                                             absl::StrJoin(p.q.sizes, ", "), "] and ", p.columns(), " columns")});
}

// The artifact's own plan, one that an earlier process kept, or a new one, which is kept.
absl::StatusOr<std::shared_ptr<const Plan>> FindPlan(const cudnn::Api& api, const Place& place, const Problem& p) {
  if (!p.stored.empty()) {
    if (auto plan = cudnn::RestorePlan(api, place, p.stored)) return plan;
  }
  const std::string what = absl::StrCat("cudnn ", api.version(), ", ", ModelOfCurrentGpu(), ", ", p.Text());
  if (const std::string kept = ReadPlanFile(what); !kept.empty()) {
    if (auto plan = cudnn::RestorePlan(api, place, kept)) return plan;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, MakePlan(api, place, p));
  if (plan->choice.compiled) WritePlanFile(what, cudnn::Serialize(api, *plan));
  return plan;
}

// Equal calls have one plan in a process.
absl::StatusOr<std::shared_ptr<const Plan>> PlanFor(const cudnn::Api& api, cudnn::Handle& handle, const Problem& p) {
  static std::mutex mutex;
  static auto& plans = *new std::map<std::string, std::shared_ptr<const Plan>>();
  const std::string key = absl::StrCat(absl::Hex(reinterpret_cast<uintptr_t>(handle.handle)), " ", p.Text(), p.stored);
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto found = plans.find(key); found != plans.end()) return found->second;
  }
  absl::StatusOr<std::shared_ptr<const Plan>> made;
  {
    std::lock_guard<std::mutex> lock(handle.mutex);
    made = FindPlan(api, Place{handle.handle, nullptr}, p);
  }
  if (!made.ok()) return made.status();
  std::lock_guard<std::mutex> lock(mutex);
  return plans.emplace(key, *made).first->second;
}

class CudnnAttention : public PreparedCall {
 public:
  CudnnAttention(const cudnn::Api& api, cudnn::Handle& handle, const CallSpec& call, Problem problem,
                 std::shared_ptr<const Plan> plan)
      : api_(api),
        handle_(handle),
        call_(call),
        p_(std::move(problem)),
        plan_(std::move(plan)),
        scale_(static_cast<float>(p_.scale)) {}

  absl::string_view provider() const override { return "cudnn"; }
  std::string algorithm() const override {
    return WriteAlgorithm("cudnn", api_.version(), call_, cudnn::Serialize(api_, *plan_));
  }
  int64_t scratch_bytes() const override { return p_.dots_bytes() + p_.wide_bytes() + plan_->choice.workspace; }
  std::string pack_key(int) const override { return ""; }
  int64_t packed_bytes(int) const override { return 0; }
  absl::Status Pack(int, const void*, void*) const override { return absl::OkStatus(); }

  absl::Status Run(const preheat_lib_addresses& addresses) const override {
    cudnn::Addresses all{{kQ, kK, kScale}, {addresses.operands[0], addresses.operands[1], &scale_}};
    if (p_.causal) all.Add(kHidden, &kNothing);
    for (size_t i = 0; i < call_.epilogue.size(); ++i) {
      if (const int64_t uid = UidOf(call_.epilogue[i].op); uid != 0) all.Add(uid, addresses.epilogue[i]);
    }
    char* scratch = static_cast<char*>(addresses.scratch);
    if (p_.gradient) {
      all.Add(kOne, &kOneFloat);
      all.Add(kGradQ, addresses.result);
      all.Add(kGradK, addresses.more_results[0]);
      all.Add(kGradV, addresses.more_results[1]);
      all.Add(kDots, scratch);
      all.Add(kWideGradQ, scratch + p_.dots_bytes());
    } else {
      all.Add(kOutput, addresses.result);
      if (p_.has_log_sums) all.Add(kLogSums, addresses.more_results[0]);
    }
    return cudnn::Execute(api_, handle_, *plan_, all, scratch + p_.dots_bytes() + p_.wide_bytes(), addresses.stream,
                          "attention");
  }

 private:
  static constexpr float kNothing = -std::numeric_limits<float>::infinity(), kOneFloat = 1;

  static int64_t UidOf(int32_t step) {
    switch (step) {
      case PREHEAT_LIB_MASK: return kMask;
      case PREHEAT_LIB_VALUES: return kV;
      case PREHEAT_LIB_GRADIENT: return kGradient;
      case PREHEAT_LIB_OUTPUT: return kOutput;
      case PREHEAT_LIB_LOG_SUMS: return kLogSums;
      default: return 0;
    }
  }

  const cudnn::Api& api_;
  cudnn::Handle& handle_;
  const CallSpec call_;
  const Problem p_;
  const std::shared_ptr<const Plan> plan_;
  const float scale_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedCall>> PrepareCudnnAttention(const CallSpec& call) {
  bool empty = call.result.elements() == 0;
  for (const TensorSpec& more : call.more_results) empty = empty && more.elements() == 0;
  if (empty) return std::make_unique<NoCall>();
  if (call.result.elements() == 0 || call.operands[1].elements() == 0) return Unsupported("attention over no rows");
  ASSIGN_OR_RETURN(Problem problem, ProblemOf(call));
  ASSIGN_OR_RETURN(const cudnn::Api* api, cudnn::OpenApi());
  ASSIGN_OR_RETURN(cudnn::Handle * handle, cudnn::HandleOfContext(*api));
  problem.stored = ReadAlgorithm("cudnn", api->version(), call).stored;
  ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, PlanFor(*api, *handle, problem));
  return std::make_unique<CudnnAttention>(*api, *handle, call, std::move(problem), std::move(plan));
}

absl::StatusOr<cudnn::Choice> ChooseCudnnAttention(const CallSpec& call, absl::string_view device) {
  ASSIGN_OR_RETURN(Problem problem, ProblemOf(call));
  ASSIGN_OR_RETURN(const cudnn::Api* api, cudnn::OpenApi());
  ASSIGN_OR_RETURN(const cudnn::Descriptor described, cudnn::DescribeDevice(*api, device));
  ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, FindPlan(*api, Place{nullptr, &described}, problem));
  return plan->choice;
}

}  // namespace preheat::library
