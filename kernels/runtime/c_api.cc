// The C ABI: translates arguments and statuses, and lets no exception out.
#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/artifact/plan_version.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/cuda_memory.h"
#include "kernels/library/cuda/cudnn_conv.h"
#include "kernels/runtime/bind.h"
#include "kernels/runtime/c_status.h"
#include "kernels/runtime/executable.h"
#include "kernels/runtime/preheat_runtime.h"
#include "kernels/runtime/record_run.h"
#include "kernels/runtime/session.h"

using preheat::runtime::Executable;
using preheat::runtime::LoadedPlan;
using preheat::runtime::Session;
using preheat::runtime::ToC;

struct preheat_executable {
  std::shared_ptr<const Executable> executable;
  std::vector<std::string> symbol_names;
};

struct preheat_session {
  std::unique_ptr<Session> session;
};

namespace {

absl::Status Missing(absl::string_view what) {
  return preheat::MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = "invalid_argument", .message = absl::StrCat(what, " is null"), .where = "", .fix = "pass it"});
}

// The status of `body`, or of what it threw: standard containers run out of memory that way.
template <typename Body>
preheat_status* Guarded(const Body& body) {
  try {
    return ToC(body());
  } catch (const std::bad_alloc&) {
    return preheat_status_new("RESOURCE_EXHAUSTED", "out_of_memory", "no memory");
  } catch (const std::exception& e) {
    return preheat_status_new("INTERNAL", "internal", e.what());
  } catch (...) {
    return preheat_status_new("INTERNAL", "internal", "an unknown exception");
  }
}

// Sizes and strides of one boundary tensor; zeros when the symbols' values do not fit.
void Shape(const Executable& executable, const preheat::plan::Buffer& buffer, const int64_t* symbols, int64_t* sizes,
           int64_t* strides) {
  const auto values = executable.SizesFor(symbols);
  for (uint32_t d = 0; d < preheat::runtime::Count(buffer.sizes()); ++d) {
    sizes[d] = values.ok() ? (**values)[buffer.sizes()->Get(d)] : 0;
    strides[d] = values.ok() ? (**values)[buffer.strides()->Get(d)] : 0;
  }
}

absl::Status BindAll(const Executable& executable, absl::Span<const preheat_tensor> inputs, int64_t* symbols) {
  const LoadedPlan& plan = executable.root();
  std::vector<uint32_t> numbers = plan.free_inputs;
  if (inputs.size() == plan.num_inputs() && inputs.size() != numbers.size()) {
    numbers.clear();
    for (uint32_t i = 0; i < plan.num_inputs(); ++i) numbers.push_back(i);
  }
  RETURN_IF_ERROR(preheat::runtime::CheckCount(inputs.size(), numbers.size(), "inputs"));
  preheat::runtime::InitSymbols(plan, symbols);
  RETURN_IF_ERROR(preheat::runtime::BindSymbols(plan, numbers, inputs.data(), symbols));
  ASSIGN_OR_RETURN(const auto values, executable.SizesFor(symbols));
  for (size_t i = 0; i < inputs.size(); ++i) {
    RETURN_IF_ERROR(preheat::runtime::CheckInput(plan, numbers[i], inputs[i], values->data(),
                                                 preheat::runtime::DeviceTypeOf(executable.device())));
  }
  return preheat::runtime::CheckGuards(plan, values->data());
}

}  // namespace

uint32_t preheat_runtime_abi(void) { return PREHEAT_RUNTIME_ABI; }
uint32_t preheat_plan_version_min(void) { return preheat::plan::kMinPlanVersion; }
uint32_t preheat_plan_version_max(void) { return preheat::plan::kPlanVersion; }
const char* preheat_host_target(void) { return preheat::HostTarget().c_str(); }

void preheat_allow_tf32_convolutions(int32_t allow) { preheat::library::AllowTf32InConvolutions(allow != 0); }

void preheat_set_gpu_host(const preheat_gpu_host* host) {
  const preheat_gpu_host none = {};
  const preheat_gpu_host& given = host != nullptr ? *host : none;
  const bool memory = given.allocate != nullptr && given.free != nullptr;
  preheat::cuda::MemorySource source;
  if (memory) source = {given.allocate, given.free, given.context};
  preheat::cuda::SetMemorySource(source);
  preheat::runtime::CaptureHooks hooks;
  if (given.begin_capture != nullptr && given.end_capture != nullptr)
    hooks = {given.begin_capture, given.end_capture, given.context};
  preheat::runtime::SetCaptureHooks(hooks);
}

preheat_status* preheat_executable_load(const void* plan, size_t plan_size, const preheat_blob* blobs, size_t num_blobs,
                                        const preheat_load_options* options, preheat_executable** out) {
  return Guarded([&]() -> absl::Status {
    if (out == nullptr) return Missing("out");
    *out = nullptr;
    if (plan == nullptr) return Missing("plan");
    if (blobs == nullptr && num_blobs > 0) return Missing("blobs");
    const preheat_load_options defaults = {};
    ASSIGN_OR_RETURN(std::shared_ptr<const Executable> loaded,
                     Executable::Load({static_cast<const char*>(plan), plan_size}, {blobs, num_blobs},
                                      options != nullptr ? *options : defaults));
    auto made = std::make_unique<preheat_executable>();
    for (uint32_t i = 0; i < loaded->root().num_symbols(); ++i) {
      made->symbol_names.push_back(preheat::runtime::Text(loaded->root().plan->symbols()->Get(i)->name()));
    }
    made->executable = std::move(loaded);
    *out = made.release();
    return absl::OkStatus();
  });
}

void preheat_executable_release(preheat_executable* executable) { delete executable; }

size_t preheat_num_inputs(const preheat_executable* e) { return e->executable->root().num_inputs(); }
size_t preheat_num_outputs(const preheat_executable* e) { return e->executable->root().num_outputs(); }
size_t preheat_num_symbols(const preheat_executable* e) { return e->symbol_names.size(); }

preheat_input_info preheat_input(const preheat_executable* e, size_t index) {
  const LoadedPlan& plan = e->executable->root();
  if (index >= plan.num_inputs()) return {};
  const auto& input = *plan.plan->inputs()->Get(static_cast<uint32_t>(index));
  const auto& buffer = plan.input_buffer(static_cast<uint32_t>(index));
  return {static_cast<int32_t>(input.kind()),
          static_cast<int32_t>(buffer.dtype()),
          static_cast<int32_t>(preheat::runtime::Count(buffer.sizes())),
          input.frozen(),
          input.is_size(),
          plan.mutated[index]};
}

preheat_output_info preheat_output(const preheat_executable* e, size_t index) {
  const LoadedPlan& plan = e->executable->root();
  if (index >= plan.num_outputs()) return {};
  const auto& output = *plan.plan->outputs()->Get(static_cast<uint32_t>(index));
  const auto& buffer = plan.output_buffer(static_cast<uint32_t>(index));
  return {static_cast<int32_t>(buffer.dtype()), static_cast<int32_t>(preheat::runtime::Count(buffer.sizes())),
          output.mutates(), output.aliases_input()};
}

const char* preheat_symbol_name(const preheat_executable* e, size_t index) {
  return index < e->symbol_names.size() ? e->symbol_names[index].c_str() : "";
}

preheat_status* preheat_bind_symbols(const preheat_executable* e, const preheat_tensor* inputs, size_t num_inputs,
                                     int64_t* symbols) {
  return Guarded([&]() -> absl::Status {
    if (inputs == nullptr && num_inputs > 0) return Missing("inputs");
    if (symbols == nullptr && !e->symbol_names.empty()) return Missing("symbols");
    return BindAll(*e->executable, {inputs, num_inputs}, symbols);
  });
}

void preheat_input_shape(const preheat_executable* e, const int64_t* symbols, size_t index, int64_t* sizes,
                         int64_t* strides) {
  if (index >= preheat_num_inputs(e)) return;
  Shape(*e->executable, e->executable->root().input_buffer(static_cast<uint32_t>(index)), symbols, sizes, strides);
}

void preheat_output_shape(const preheat_executable* e, const int64_t* symbols, size_t index, int64_t* sizes,
                          int64_t* strides) {
  if (index >= preheat_num_outputs(e)) return;
  Shape(*e->executable, e->executable->root().output_buffer(static_cast<uint32_t>(index)), symbols, sizes, strides);
}

int64_t preheat_arena_bytes(const preheat_executable* e, const int64_t* symbols) {
  const auto values = e->executable->SizesFor(symbols);
  return values.ok() ? (**values)[e->executable->root().plan->arena_bytes()] : 0;
}

preheat_status* preheat_bind(preheat_executable* e, const preheat_bind_options* options, preheat_session** out) {
  return Guarded([&]() -> absl::Status {
    if (out == nullptr) return Missing("out");
    *out = nullptr;
    const preheat_bind_options defaults = {};
    const preheat_bind_options& given = options != nullptr ? *options : defaults;
    if (given.frozen == nullptr && given.num_frozen > 0) return Missing("frozen");
    ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(e->executable, given));
    *out = new preheat_session{std::move(session)};
    return absl::OkStatus();
  });
}

void preheat_session_release(preheat_session* session) { delete session; }

preheat_status* preheat_session_refresh(preheat_session* s, const preheat_tensor* frozen, size_t num_frozen) {
  return Guarded([&] { return s->session->Refresh(frozen, num_frozen); });
}

preheat_status* preheat_session_run(preheat_session* s, const preheat_tensor* inputs, size_t num_inputs,
                                    const preheat_tensor* outputs, size_t num_outputs, void* stream) {
  return Guarded([&]() -> absl::Status {
    if (inputs == nullptr && num_inputs > 0) return Missing("inputs");
    if (outputs == nullptr && num_outputs > 0) return Missing("outputs");
    return s->session->Run({inputs, num_inputs}, {outputs, num_outputs}, stream);
  });
}

preheat_status* preheat_session_run_raw(preheat_session* s, const int64_t* symbols, void* const* inputs,
                                        void* const* outputs, void* arena, void* stream) {
  return Guarded([&] { return s->session->RunRaw(symbols, inputs, outputs, arena, stream); });
}

void preheat_session_profile(preheat_session* s, int32_t on) { s->session->SetProfile(on != 0); }

size_t preheat_session_algorithm(preheat_session* s, size_t step, void* bytes, size_t capacity) {
  const std::string algorithm = s->session->Algorithm(step);
  if (bytes != nullptr) std::memcpy(bytes, algorithm.data(), std::min(capacity, algorithm.size()));
  return algorithm.size();
}

size_t preheat_session_step_times(preheat_session* s, preheat_step_time* times, size_t capacity) {
  return s->session->StepTimes(times, times != nullptr ? capacity : 0);
}
