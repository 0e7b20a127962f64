#include "kernels/runtime/executable.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/device/cpu_device.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/cuda_device.h"
#include "kernels/library/cuda/plan_files.h"
#include "kernels/runtime/check_plan.h"

namespace preheat::runtime {
namespace {

absl::StatusOr<CodeImage> FindBlob(const char* digest, absl::Span<const preheat_blob> blobs) {
  for (const preheat_blob& blob : blobs) {
    if (blob.digest == nullptr || std::strcmp(blob.digest, digest) != 0) continue;
    return CodeImage{digest,
                     absl::string_view(static_cast<const char*>(blob.data), blob.data != nullptr ? blob.size : 0)};
  }
  return MakeError(absl::StatusCode::kDataLoss,
                   {.kind = "corrupt_artifact",
                    .message = absl::StrCat("the code ", digest, " did not come with the plan"),
                    .where = "",
                    .fix = "fetch the artifact again"});
}

void DescribeBoundary(LoadedPlan& loaded) {
  const plan::Plan& plan = *loaded.plan;
  loaded.size_symbol.assign(loaded.num_inputs(), -1);
  loaded.mutated.assign(loaded.num_inputs(), false);
  for (uint32_t i = 0; i < loaded.num_inputs(); ++i) {
    (plan.inputs()->Get(i)->frozen() ? loaded.frozen_inputs : loaded.free_inputs).push_back(i);
  }
  for (uint32_t i = 0; i < loaded.num_symbols(); ++i) {
    const plan::SymbolDef& symbol = *plan.symbols()->Get(i);
    loaded.defines = loaded.defines || symbol.input() < 0;
    if (symbol.input() >= 0 && symbol.dim() < 0) loaded.size_symbol[symbol.input()] = static_cast<int32_t>(i);
  }
  for (uint32_t i = 0; i < loaded.num_outputs(); ++i) {
    const int32_t mutates = plan.outputs()->Get(i)->mutates();
    if (mutates >= 0) {
      loaded.mutated[mutates] = true;
    } else {
      loaded.passed_outputs.push_back(i);
    }
  }
}

}  // namespace

void Executable::FreeMemory::operator()(char* memory) const { FreeAligned(memory); }

absl::StatusOr<std::shared_ptr<const Executable>> Executable::Load(absl::string_view plan,
                                                                   absl::Span<const preheat_blob> blobs,
                                                                   const preheat_load_options& options) {
  std::shared_ptr<Executable> executable(new Executable);
  executable->num_threads_ = std::clamp(options.num_threads, 0, 1024);
  executable->plan_bytes_.reset(static_cast<char*>(AllocateAligned(static_cast<int64_t>(plan.size()))));
  if (executable->plan_bytes_ == nullptr) return absl::ResourceExhaustedError("no memory for the plan");
  if (!plan.empty()) std::memcpy(executable->plan_bytes_.get(), plan.data(), plan.size());
  ASSIGN_OR_RETURN(const plan::Plan* checked, CheckPlan(executable->plan_bytes_.get(), plan.size()));
  if (absl::StartsWith(Text(checked->target()), "cuda:")) {
    ASSIGN_OR_RETURN(executable->device_, NewCudaDevice(Text(checked->target())));
    library::KeepPlansIn(options.cache_dir != nullptr ? options.cache_dir : "");
  } else {
    RETURN_IF_ERROR(CheckHostRuns(Text(checked->target())));
    executable->device_ = NewCpuDevice(options.cache_dir != nullptr ? options.cache_dir : "");
  }
  ASSIGN_OR_RETURN(executable->root_, executable->LoadOne(*checked, blobs));
  std::sort(executable->extern_ops_.begin(), executable->extern_ops_.end());
  executable->extern_ops_.erase(std::unique(executable->extern_ops_.begin(), executable->extern_ops_.end()),
                                executable->extern_ops_.end());
  return std::shared_ptr<const Executable>(std::move(executable));
}

absl::StatusOr<std::unique_ptr<LoadedPlan>> Executable::LoadOne(const plan::Plan& plan,
                                                                absl::Span<const preheat_blob> blobs) {
  auto loaded = std::make_unique<LoadedPlan>();
  loaded->plan = &plan;
  loaded->known = ClassifySizes(plan);
  DescribeBoundary(*loaded);
  RETURN_IF_ERROR(LoadKernels(*loaded, blobs));
  RETURN_IF_ERROR(PlaceConstants(*loaded));
  NoteExterns(plan);
  for (uint32_t i = 0; i < Count(plan.subplans()); ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<LoadedPlan> subplan, LoadOne(*plan.subplans()->Get(i), blobs));
    loaded->subplans.push_back(std::move(subplan));
  }
  return loaded;
}

absl::Status Executable::LoadKernels(LoadedPlan& loaded, absl::Span<const preheat_blob> blobs) {
  std::vector<const LoadedCode*> code;
  for (uint32_t i = 0; i < Count(loaded.plan->code()); ++i) {
    ASSIGN_OR_RETURN(const CodeImage image, FindBlob(Text(loaded.plan->code()->Get(i)->digest()), blobs));
    ASSIGN_OR_RETURN(std::shared_ptr<const LoadedCode> one, device_->Load(image));
    code.push_back(one.get());
    code_.push_back(std::move(one));
  }
  for (uint32_t i = 0; i < Count(loaded.plan->kernels()); ++i) {
    const plan::Kernel& kernel = *loaded.plan->kernels()->Get(i);
    ASSIGN_OR_RETURN(void* function, code[kernel.code()]->Find(Text(kernel.symbol())));
    loaded.functions.push_back(function);
  }
  return absl::OkStatus();
}

absl::Status Executable::PlaceConstants(LoadedPlan& loaded) {
  loaded.constants = const_cast<char*>(ConstantBytes(*loaded.plan));
  const int64_t bytes = Count(loaded.plan->constants());
  if (device_->is_host() || bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(void* memory, device_->Allocate(bytes));
  device_constants_.emplace_back(memory, [device = device_.get()](void* p) { device->Free(p); });
  RETURN_IF_ERROR(device_->Copy(memory, loaded.constants, bytes));
  loaded.constants = static_cast<char*>(memory);
  return absl::OkStatus();
}

void Executable::NoteExterns(const plan::Plan& plan) {
  for (const auto* steps : {plan.prologue(), plan.steps()}) {
    for (uint32_t i = 0; i < Count(steps); ++i) {
      const plan::ExternStep* step = steps->Get(i)->kind_as_ExternStep();
      if (step != nullptr) extern_ops_.push_back(Text(step->op()));
    }
  }
}

absl::StatusOr<std::shared_ptr<const std::vector<int64_t>>> Executable::SizesFor(const int64_t* symbols) const {
  const size_t count = root_->num_symbols();
  std::lock_guard<std::mutex> lock(mutex_);
  if (last_values_ != nullptr && std::equal(last_symbols_.begin(), last_symbols_.end(), symbols)) return last_values_;
  auto values = std::make_shared<std::vector<int64_t>>(root_->plan->sizes()->size());
  RETURN_IF_ERROR(EvaluateSizes(*root_->plan, symbols, values->data()));
  last_symbols_.assign(symbols, symbols + count);
  last_values_ = values;
  return last_values_;
}

}  // namespace preheat::runtime
