#include "kernels/library/providers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/status_macros.h"
#include "kernels/library/epilogue_pass.h"
#include "kernels/library/exchanged_operands.h"
#include "kernels/library/loops.h"
#include "kernels/library/nine_pixels.h"
#include "kernels/library/plugin.h"
#include "kernels/library/pointwise.h"
#include "kernels/library/pointwise_grad.h"

namespace preheat::library {
namespace {

// The table: who is asked, in this order, and for which dtypes. A provider may still decline a call.
struct Row {
  const Provider* provider;  // null when its plugin is not here
  bool (*takes)(DType dtype);
};

const std::vector<Row>& Table() {
  static const std::vector<Row>& table = *new std::vector<Row>{
      {OneDnnProvider(), [](DType t) { return t == DType::kF32 || t == DType::kBF16; }},
      {&LoopsProvider(), [](DType) { return true; }},
  };
  return table;
}

using Prepared = absl::StatusOr<std::unique_ptr<PreparedCall>>;

// Asks one provider; where it declines the epilogues, it may still take the product in f32, and they follow as a pass
// of their own. (In f16 and bf16 that would round in between.)
Prepared Ask(const Provider& provider, const CallSpec& call) {
  Prepared prepared = provider.Prepare(call);
  const bool may_split = !call.epilogue.empty() && call.result.dtype == static_cast<int32_t>(DType::kF32);
  if (prepared.ok() || !absl::IsUnimplemented(prepared.status()) || !may_split) return prepared;
  CallSpec product = call;
  product.epilogue.clear();
  prepared = provider.Prepare(product);
  if (!prepared.ok()) return prepared;
  return WithEpiloguePass(*std::move(prepared), call);
}

// oneDNN copies filters that are not frozen in every call. Where they are read for a few positions only, that is most
// of the work, and the own loops, which read them as they lie, are faster: a filter of one pixel for one position, of
// any size, takes them half the time. Not where each group has few filters: the own loops pack windows for each group
// anew.
bool FiltersOutweigh(const CallSpec& call) {
  if (call.op != PREHEAT_LIB_CONV || call.groups != 1 || call.frozen[1]) return false;
  if (call.result.dtype != static_cast<int32_t>(DType::kF32)) return false;
  constexpr int64_t kPositions = 49, kFilters = 1 << 13;  // elements
  const int64_t outputs = call.result.sizes[1], positions = call.result.elements() / std::max<int64_t>(1, outputs);
  const bool many = positions == 1 || call.operands[1].elements() >= kFilters;
  return positions <= kPositions && 2 * positions <= outputs && many;
}

// Epilogues that oneDNN has vectors for, and the own loops have not.
bool HasVectorsOfOneDnn(const CallSpec& call) {
  for (const EpilogueSpec& step : call.epilogue) {
    if (step.op > PREHEAT_LIB_RELU) return true;
  }
  return false;
}

// Row-major images, which oneDNN copies before and after: with windows of one pixel, the copies take as long as the
// product or longer where either side has few channels.
bool CopiesOutweigh(const CallSpec& call) {
  if (call.frozen[1] || !IsPointwise(call) || HasVectorsOfOneDnn(call)) return false;
  constexpr int64_t kPositions = 32;  // fewer leave vectors half empty
  return call.result.elements() >= kPositions * call.result.sizes[1];
}

// The same of the gradient by the filters: where images are large, or oneDNN's product is slow too, as it is with few
// channels on either side. In between it depends on whose vectors are full: the own ones hold positions, oneDNN's
// channels.
bool GradCopiesOutweigh(const CallSpec& call) {
  if (!IsPointwiseGrad(call)) return false;
  constexpr int64_t kPositions = 96, kManyPositions = 784, kFewChannels = 32, kSomeChannels = 72, kVector = 16;
  const TensorSpec& x = call.operands[1];
  const int64_t in = call.result.sizes[1], out = call.result.sizes[0], least = std::min(in, out);
  const int64_t positions = x.elements() / (x.sizes[0] * in);
  if (positions < kPositions) return false;
  const bool fits = positions % kVector == 0 || in % kVector != 0 || out % kVector != 0;
  return positions >= kManyPositions || least <= kFewChannels || (least <= kSomeChannels && fits);
}

// Row-major images under windows of nine pixels. oneDNN copies them to blocks of 16 channels, and those fill its
// vectors or do not; the own vectors hold positions.
bool NineCopiesOutweigh(const CallSpec& call) {
  if (call.frozen[1] || !IsNinePixels(call) || HasVectorsOfOneDnn(call)) return false;
  constexpr int64_t kVector = 16, kFewChannels = 32, kSomeChannels = 64, kSomePositions = 196, kManyPositions = 1024;
  constexpr int64_t kWorthTurning = 256, kWorthNoCopy = 7 << 19;  // positions; elements
  const TensorSpec &x = call.operands[0], &y = call.result;
  const int64_t in = x.sizes[1] / call.groups, out = y.sizes[1] / call.groups, positions = y.sizes[2] * y.sizes[3];
  if (call.groups > 1 && in == 1) return false;
  const bool forward = call.op == PREHEAT_LIB_CONV;
  if (in % kVector != 0 || out % kVector != 0) {
    if (!forward && positions * y.sizes[0] < kWorthTurning) return false;  // filters are copied for a gradient
    return in <= kFewChannels || (in <= kSomeChannels && positions >= kSomePositions);
  }
  if (positions % kVector != 0 || in > kFewChannels) return false;
  if (forward && x.elements() + y.elements() >= kWorthNoCopy) return true;
  if (out > kFewChannels) return false;
  if (in <= kVector || call.groups > 1) return positions >= (forward && in > kVector ? kWorthTurning : kManyPositions);
  return false;
}

Prepared FirstThatTakes(const CallSpec& call, absl::string_view preferred) {
  if (call.op >= PREHEAT_LIB_ATTENTION) return LoopsProvider().Prepare(call);
  const bool outweighs =
      FiltersOutweigh(call) || CopiesOutweigh(call) || GradCopiesOutweigh(call) || NineCopiesOutweigh(call);
  if (preferred.empty() && outweighs) preferred = LoopsProvider().name();
  for (const bool asked : {true, false}) {
    for (const Row& row : Table()) {
      if (row.provider == nullptr || (row.provider->name() == preferred) != asked) continue;
      if (!row.takes(static_cast<DType>(call.result.dtype))) continue;
      Prepared prepared = Ask(*row.provider, call);
      if (prepared.ok() || !absl::IsUnimplemented(prepared.status())) return prepared;
    }
  }
  return absl::InternalError("no provider takes this call");
}

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedCall>> Prepare(const CallSpec& call, absl::string_view preferred) {
  RETURN_IF_ERROR(CheckCall(call));
  bool swapped = false;
  const CallSpec normal = NormalizeCall(call, &swapped);
  ASSIGN_OR_RETURN(std::unique_ptr<PreparedCall> prepared, FirstThatTakes(normal, preferred));
  if (swapped) prepared = WithExchangedOperands(std::move(prepared));
  return prepared;
}

std::vector<std::string> ProviderNames() {
  std::vector<std::string> names;
  for (const Row& row : Table()) {
    if (row.provider != nullptr) names.push_back(std::string(row.provider->name()));
  }
  return names;
}

}  // namespace preheat::library
