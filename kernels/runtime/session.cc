#include "kernels/runtime/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::runtime {

absl::StatusOr<std::unique_ptr<Session>> Session::Create(std::shared_ptr<const Executable> executable,
                                                         const preheat_bind_options& options) {
  if (executable->has_extern_steps() && options.extern_handler == nullptr) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     {.kind = "extern_needs_torch",
                      .message = absl::StrCat("the artifact calls operators that only torch has: ",
                                              absl::StrJoin(executable->extern_ops(), ", ")),
                      .where = "",
                      .fix = "run it where torch is installed, and pass its extern handler"});
  }
  std::unique_ptr<Session> session(new Session(std::move(executable)));
  const DeviceScope scope(session->executable_->device());
  session->context_ = {session->executable_.get(), options.extern_handler, options.extern_context};
  session->root_ = std::make_unique<PlanInstance>(session->context_, session->executable_->root());
  RETURN_IF_ERROR(session->root_->BindFrozen({options.frozen, options.num_frozen}));
  return session;
}

absl::Status Session::Refresh(const preheat_tensor* frozen, size_t num_frozen) {
  const DeviceScope scope(executable_->device());
  if (frozen == nullptr) return root_->Refresh();
  return root_->BindFrozen({frozen, num_frozen});
}

template <typename Call>
absl::Status Session::Profiled(const Call& call) {
  const DeviceScope scope(executable_->device());
  if (!profile_.load(std::memory_order_relaxed)) return call(nullptr);
  std::vector<double> seconds;
  RETURN_IF_ERROR(call(&seconds));
  std::lock_guard<std::mutex> lock(times_mutex_);
  if (names_.empty()) names_ = root_->StepNames();
  seconds_ = std::move(seconds);
  return absl::OkStatus();
}

absl::Status Session::Run(absl::Span<const preheat_tensor> inputs, absl::Span<const preheat_tensor> outputs,
                          Stream stream) {
  return Profiled([&](std::vector<double>* seconds) { return root_->Run(inputs, outputs, seconds, stream); });
}

absl::Status Session::RunRaw(const int64_t* symbols, void* const* inputs, void* const* outputs, void* arena,
                             Stream stream) {
  return Profiled(
      [&](std::vector<double>* seconds) { return root_->RunRaw(symbols, inputs, outputs, arena, seconds, stream); });
}

std::string Session::Algorithm(size_t step) { return root_->Algorithm(step); }

size_t Session::StepTimes(preheat_step_time* times, size_t capacity) {
  std::lock_guard<std::mutex> lock(times_mutex_);
  const size_t count = std::min(names_.size(), seconds_.size());
  for (size_t i = 0; i < std::min(count, capacity); ++i) times[i] = {names_[i].c_str(), seconds_[i]};
  return count;
}

}  // namespace preheat::runtime
