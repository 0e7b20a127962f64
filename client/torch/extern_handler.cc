#include "client/torch/extern_handler.h"

#include <ATen/ATen.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/torch/read_call.h"
#include "compiler/reference/aten_call.h"
#include "compiler/reference/tensors.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

constexpr size_t kMaxPrepared = 4096;

struct Prepared {
  reference::AtenCall call;
  std::set<int> skipped;
};

absl::StatusOr<std::shared_ptr<const Prepared>> Prepare(const preheat_extern_call& call) {
  ASSIGN_OR_RETURN(ReadCall read, ReadExternCall(call.call));
  std::vector<ir::DType> results;
  for (size_t i = 0; i < call.num_results; ++i) results.push_back(static_cast<ir::DType>(call.results[i].dtype));
  ASSIGN_OR_RETURN(reference::AtenCall made,
                   reference::AtenCall::Make(read.op, read.arguments, results, /*float64=*/false));
  for (int id : made.Operands()) {
    if (id < 0 || static_cast<size_t>(id) >= call.num_operands) {
      return MakeError(absl::StatusCode::kInvalidArgument,
                       {.kind = "malformed_call", .message = absl::StrCat(read.op, " has no operand ", id)});
    }
  }
  return std::make_shared<const Prepared>(Prepared{std::move(made), std::move(read.skipped)});
}

// Calls by their text. Sizes are in the text, so many sizes are many calls: the table starts anew when it is full.
absl::StatusOr<std::shared_ptr<const Prepared>> Lookup(const preheat_extern_call& call) {
  static std::mutex mutex;
  static auto* table = new std::unordered_map<std::string, std::shared_ptr<const Prepared>>();
  const std::string text = call.call;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto found = table->find(text); found != table->end()) return found->second;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Prepared> prepared, Prepare(call));
  std::lock_guard<std::mutex> lock(mutex);
  if (table->size() >= kMaxPrepared) table->clear();
  table->emplace(text, prepared);
  return prepared;
}

// The runtime's memory as a tensor; nothing is copied.
at::Tensor Wrap(const preheat_tensor& t) {
  const at::IntArrayRef sizes(t.sizes, t.rank), strides(t.strides, t.rank);
  const auto options = at::TensorOptions().dtype(reference::ToTorch(static_cast<ir::DType>(t.dtype)));
  if (t.data == nullptr) return at::empty_strided(sizes, strides, options);
  return at::from_blob(t.data, sizes, strides, options);
}

absl::Status Deliver(const preheat_extern_call& call, const std::vector<c10::IValue>& results,
                     const std::set<int>& skipped) {
  size_t next = 0;
  for (size_t i = 0; i < results.size() && next < call.num_results; ++i) {
    if (skipped.count(static_cast<int>(i)) != 0) continue;
    at::Tensor target = Wrap(call.results[next++]);
    if (results[i].isNone()) continue;
    if (!results[i].isTensor())
      return MakeError(absl::StatusCode::kInternal,
                       {.kind = "result_mismatch", .message = absl::StrCat(call.op, " gives no tensor")});
    const at::Tensor& result = results[i].toTensor();
    if (result.sizes() != target.sizes() || result.scalar_type() != target.scalar_type()) {
      return MakeError(
          absl::StatusCode::kInternal,
          {.kind = "result_mismatch",
           .message = absl::StrCat("result ", i, " of ", call.op, " has not the type that the program declares")});
    }
    target.copy_(result);
  }
  if (next == call.num_results) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInternal,
                   {.kind = "result_mismatch", .message = absl::StrCat(call.op, " gives too few results")});
}

}  // namespace

absl::Status RunExternCall(const preheat_extern_call& call) {
  try {
    at::NoGradGuard no_grad;
    ASSIGN_OR_RETURN(std::shared_ptr<const Prepared> prepared, Lookup(call));
    const reference::CallScope scope{[&](int id) { return c10::IValue(Wrap(call.operands[id])); },
                                     [](const std::string&) { return int64_t{0}; }};
    ASSIGN_OR_RETURN(std::vector<c10::IValue> results, prepared->call.Run(scope));
    return Deliver(call, results, prepared->skipped);
  } catch (const std::exception& e) {
    return MakeError(absl::StatusCode::kInternal, {.kind = "extern_failed", .message = e.what()});
  }
}

}  // namespace preheat
