#include "kernels/device/cuda_device.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/device/cuda_driver.h"
#include "kernels/device/cuda_graph.h"
#include "kernels/device/cuda_hold.h"
#include "kernels/device/cuda_launch.h"
#include "kernels/device/cuda_memory.h"

namespace preheat {
namespace {

struct CudaEvent : Event {
  CudaEvent(const cuda::Driver& d, cuda::EventHandle e) : driver(d), handle(e) {}
  ~CudaEvent() override { driver.EventDestroy(handle); }
  const cuda::Driver& driver;
  cuda::EventHandle handle;
};

class CudaCode : public LoadedCode {
 public:
  CudaCode(const cuda::Driver& driver, cuda::Context context, cuda::Module module)
      : driver_(driver), context_(context), module_(module) {}
  ~CudaCode() override {
    const cuda::ContextScope scope(driver_, context_);
    driver_.ModuleUnload(module_);
  }

  // Ready for as much dynamic shared memory as the GPU has for it.
  absl::StatusOr<void*> Find(const char* symbol) const override {
    const cuda::ContextScope scope(driver_, context_);
    cuda::Function function = nullptr;
    if (driver_.ModuleGetFunction(&function, module_, symbol) != 0) {
      return MakeError(absl::StatusCode::kNotFound, {.kind = "corrupt_artifact",
                                                     .message = absl::StrCat("the cubin has no kernel ", symbol),
                                                     .where = symbol,
                                                     .fix = "fetch the artifact again"});
    }
    return function;
  }

 private:
  const cuda::Driver& driver_;
  const cuda::Context context_;
  const cuda::Module module_;
};

class CudaDevice : public Device {
 public:
  CudaDevice(const cuda::Driver& driver, cuda::Context context, int ordinal)
      : driver_(driver), context_(context), ordinal_(ordinal) {}

  absl::string_view name() const override { return "cuda"; }
  bool is_host() const override { return false; }
  int ordinal() const override { return ordinal_; }
  bool Enter() override {
    cuda::Context current = nullptr;
    return (driver_.CtxGetCurrent(&current) != 0 || current != context_) && driver_.CtxPushCurrent(context_) == 0;
  }
  void Leave() override {
    cuda::Context current = nullptr;
    driver_.CtxPopCurrent(&current);
  }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    const cuda::ContextScope scope(driver_, context_);
    cuda::DevicePointer memory = 0;
    RETURN_IF_ERROR(cuda::Check(driver_, driver_.MemAlloc(&memory, static_cast<size_t>(std::max<int64_t>(bytes, 1))),
                                absl::StrCat("allocating ", bytes, " bytes on the GPU")));
    return reinterpret_cast<void*>(memory);
  }
  void Free(void* memory) override {
    if (memory == nullptr) return;
    const cuda::ContextScope scope(driver_, context_);
    driver_.MemFree(reinterpret_cast<cuda::DevicePointer>(memory));
  }
  absl::StatusOr<void*> AllocateShared(int64_t bytes) override {
    const cuda::ContextScope scope(driver_, context_);
    void* memory = nullptr;
    RETURN_IF_ERROR(cuda::Check(
        driver_, driver_.MemHostAlloc(&memory, static_cast<size_t>(bytes), cuda::kPortable | cuda::kDeviceMapped),
        "allocating host memory"));
    return memory;
  }
  void FreeShared(void* memory) override {
    const cuda::ContextScope scope(driver_, context_);
    if (memory != nullptr) driver_.MemFreeHost(memory);
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes) override {
    const cuda::ContextScope scope(driver_, context_);
    return cuda::Check(driver_,
                       driver_.Memcpy(reinterpret_cast<cuda::DevicePointer>(to),
                                      reinterpret_cast<cuda::DevicePointer>(from), static_cast<size_t>(bytes)),
                       "copying memory");
  }

  absl::StatusOr<std::shared_ptr<const LoadedCode>> Load(const CodeImage& image) override {
    std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<const LoadedCode>& code = code_[std::string(image.digest)];
    if (code != nullptr) return code;
    if (Digest(image.bytes) != image.digest) {
      return MakeError(absl::StatusCode::kDataLoss, {.kind = "corrupt_artifact",
                                                     .message = "code does not have the bytes of its digest",
                                                     .where = "",
                                                     .fix = "fetch the artifact again"});
    }
    const cuda::ContextScope scope(driver_, context_);
    const std::string bytes(image.bytes);  // aligned, and followed by a zero
    cuda::Module module = nullptr;
    RETURN_IF_ERROR(cuda::Check(driver_, driver_.ModuleLoadData(&module, bytes.data()), "loading a cubin"));
    code = std::make_shared<CudaCode>(driver_, context_, module);
    return code;
  }

  absl::Status Launch(const struct Launch& launch, Stream stream) override {
    const cuda::ContextScope scope(driver_, context_);
    return cuda::PackedLaunch(launch).Enqueue(driver_, stream);
  }

  absl::StatusOr<std::unique_ptr<LaunchGraph>> NewGraph() override { return cuda::NewLaunchGraph(driver_, context_); }
  bool IsCapturing(Stream stream) override {
    int status = 0;
    return stream != nullptr && driver_.StreamIsCapturing(stream, &status) == 0 && status != 0;
  }
  Workspace* WorkspaceOf(Stream stream) override { return cuda::WorkspaceOf(driver_, context_, ordinal_, stream); }

  absl::StatusOr<std::unique_ptr<Event>> Record(Stream stream) override {
    const cuda::ContextScope scope(driver_, context_);
    cuda::EventHandle handle = nullptr;
    RETURN_IF_ERROR(cuda::Check(driver_, driver_.EventCreate(&handle, 0), "making an event"));
    auto event = std::make_unique<CudaEvent>(driver_, handle);
    RETURN_IF_ERROR(cuda::Check(driver_, driver_.EventRecord(handle, stream), "recording an event"));
    return std::unique_ptr<Event>(std::move(event));
  }
  absl::StatusOr<double> SecondsBetween(const Event& first, const Event& second) override {
    const cuda::ContextScope scope(driver_, context_);
    const auto &a = static_cast<const CudaEvent&>(first), &b = static_cast<const CudaEvent&>(second);
    float milliseconds = 0;
    RETURN_IF_ERROR(cuda::Check(driver_, driver_.EventSynchronize(b.handle), "waiting for an event"));
    RETURN_IF_ERROR(cuda::Check(driver_, driver_.EventElapsedTime(&milliseconds, a.handle, b.handle), "timing"));
    return milliseconds * 1e-3;
  }
  absl::StatusOr<std::unique_ptr<Hold>> HoldBack(Stream stream) override {
    const cuda::ContextScope scope(driver_, context_);
    return cuda::HoldBack(driver_, stream);
  }
  absl::Status Synchronize(Stream stream) override {
    const cuda::ContextScope scope(driver_, context_);
    return cuda::Check(driver_, driver_.StreamSynchronize(stream), "waiting for the GPU");
  }

 private:
  const cuda::Driver& driver_;
  const cuda::Context context_;
  const int ordinal_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const LoadedCode>> code_;  // guarded by mutex_
};

// A cubin runs on its own major version, from its own minor version on; "sm_90a" on 9.0 alone.
absl::Status CheckGpu(const cuda::Driver& driver, int device, absl::string_view target) {
  int major = 0, minor = 0, wanted = 0;
  driver.DeviceGetAttribute(&major, cuda::kComputeCapabilityMajor, device);
  driver.DeviceGetAttribute(&minor, cuda::kComputeCapabilityMinor, device);
  const bool parsed = absl::StartsWith(target, "cuda:sm_") && absl::SimpleAtoi(target.substr(8), &wanted);
  const bool exact = wanted == 90;
  if (parsed && wanted / 10 == major && (exact ? wanted % 10 == minor : wanted % 10 <= minor)) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "unsupported_gpu",
                    .message = absl::StrCat("the artifact is for ", target, ", this GPU is sm_", major, minor),
                    .where = "",
                    .fix = absl::StrCat("compile for cuda:sm_", major, minor)});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> NewCudaDevice(absl::string_view target) {
  ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::OpenDriver());
  int ordinal = 0, device = 0;
  cuda::Context current = nullptr;
  if (driver->CtxGetCurrent(&current) == 0 && current != nullptr) driver->CtxGetDevice(&ordinal);
  RETURN_IF_ERROR(cuda::Check(*driver, driver->DeviceGet(&device, ordinal), "opening the GPU"));
  RETURN_IF_ERROR(CheckGpu(*driver, device, target));
  cuda::Context context = nullptr;
  RETURN_IF_ERROR(cuda::Check(*driver, driver->DevicePrimaryCtxRetain(&context, device), "opening the GPU's context"));
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(*driver, context, ordinal));
}

}  // namespace preheat
