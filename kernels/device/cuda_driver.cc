#include "kernels/device/cuda_driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cuda {
namespace {

constexpr Result kOutOfMemory = 2;

absl::Status NoDriver(std::string message) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "no_cuda_driver",
                    .message = std::move(message),
                    .where = "",
                    .fix = "run on a machine with an NVIDIA GPU and its driver, or compile for this CPU"});
}

absl::StatusOr<const Driver*> Open() {
  const char* named = std::getenv("PREHEAT_CUDA_DRIVER");
  const std::string path = named != nullptr && *named != 0 ? named : "libcuda.so.1";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NoDriver(absl::StrCat("the CUDA driver cannot be opened: ", dlerror()));
  auto* driver = new Driver;  // lives for ever, as the library does
  std::string missing;
  const auto find = [&](const char* name, auto* function) {
    *reinterpret_cast<void**>(function) = dlsym(library, name);
    if (*reinterpret_cast<void**>(function) == nullptr) missing = name;
  };
  find("cuInit", &driver->Init);
  find("cuDeviceGet", &driver->DeviceGet);
  find("cuDeviceGetCount", &driver->DeviceGetCount);
  find("cuDeviceGetName", &driver->DeviceGetName);
  find("cuDeviceGetUuid_v2", &driver->DeviceGetUuid);
  find("cuDeviceGetAttribute", &driver->DeviceGetAttribute);
  find("cuDevicePrimaryCtxRetain", &driver->DevicePrimaryCtxRetain);
  find("cuCtxGetCurrent", &driver->CtxGetCurrent);
  find("cuCtxGetDevice", &driver->CtxGetDevice);
  find("cuCtxPushCurrent_v2", &driver->CtxPushCurrent);
  find("cuCtxPopCurrent_v2", &driver->CtxPopCurrent);
  find("cuMemAlloc_v2", &driver->MemAlloc);
  find("cuMemFree_v2", &driver->MemFree);
  find("cuMemHostAlloc", &driver->MemHostAlloc);
  find("cuMemFreeHost", &driver->MemFreeHost);
  find("cuMemcpy", &driver->Memcpy);
  find("cuModuleLoadData", &driver->ModuleLoadData);
  find("cuModuleUnload", &driver->ModuleUnload);
  find("cuModuleGetFunction", &driver->ModuleGetFunction);
  find("cuFuncSetAttribute", &driver->FuncSetAttribute);
  find("cuLaunchKernel", &driver->LaunchKernel);
  find("cuLaunchHostFunc", &driver->LaunchHostFunc);
  find("cuEventCreate", &driver->EventCreate);
  find("cuEventRecord", &driver->EventRecord);
  find("cuEventSynchronize", &driver->EventSynchronize);
  find("cuEventElapsedTime", &driver->EventElapsedTime);
  find("cuEventDestroy_v2", &driver->EventDestroy);
  find("cuStreamSynchronize", &driver->StreamSynchronize);
  find("cuStreamCreate", &driver->StreamCreate);
  find("cuStreamDestroy_v2", &driver->StreamDestroy);
  find("cuStreamBeginCapture_v2", &driver->StreamBeginCapture);
  find("cuStreamEndCapture", &driver->StreamEndCapture);
  find("cuStreamIsCapturing", &driver->StreamIsCapturing);
  find("cuGraphCreate", &driver->GraphCreate);
  find("cuGraphDestroy", &driver->GraphDestroy);
  find("cuGraphAddKernelNode_v2", &driver->GraphAddKernelNode);
  find("cuGraphAddChildGraphNode", &driver->GraphAddChildGraphNode);
  find("cuGraphInstantiateWithFlags", &driver->GraphInstantiate);
  find("cuGraphExecDestroy", &driver->GraphExecDestroy);
  find("cuGraphExecKernelNodeSetParams_v2", &driver->GraphExecKernelNodeSetParams);
  find("cuGraphExecChildGraphNodeSetParams", &driver->GraphExecChildGraphNodeSetParams);
  find("cuGraphLaunch", &driver->GraphLaunch);
  find("cuGetErrorName", &driver->GetErrorName);
  find("cuGetErrorString", &driver->GetErrorString);
  if (!missing.empty()) return NoDriver(absl::StrCat(path, " has no ", missing));
  if (driver->Init(0) != 0) return NoDriver("the CUDA driver finds no device that it can use");
  return driver;
}

}  // namespace

absl::StatusOr<const Driver*> OpenDriver() {
  static const absl::StatusOr<const Driver*>& driver = *new absl::StatusOr<const Driver*>(Open());
  return driver;
}

absl::Status Check(const Driver& driver, Result result, absl::string_view what) {
  if (result == 0) return absl::OkStatus();
  const char *name = nullptr, *words = nullptr;
  driver.GetErrorName(result, &name);
  driver.GetErrorString(result, &words);
  const bool memory = result == kOutOfMemory;
  return MakeError(memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
                   {.kind = memory ? "out_of_memory" : "cuda_error",
                    .message = absl::StrCat(what, ": ", name != nullptr ? name : "an unknown error", " (",
                                            words != nullptr ? words : "", ")"),
                    .where = "",
                    .fix = memory ? "run smaller batches, or fewer programs on this GPU at once" : ""});
}

ContextScope::ContextScope(const Driver& driver, Context context) : driver_(driver) {
  Context current = nullptr;
  if (driver.CtxGetCurrent(&current) == 0 && current == context) return;
  pushed_ = driver.CtxPushCurrent(context) == 0;
}

ContextScope::~ContextScope() {
  Context popped = nullptr;
  if (pushed_) driver_.CtxPopCurrent(&popped);
}

}  // namespace preheat::cuda
