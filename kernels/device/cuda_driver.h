#ifndef PREHEAT_KERNELS_DEVICE_CUDA_DRIVER_H_
#define PREHEAT_KERNELS_DEVICE_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace preheat::cuda {

// The part of the CUDA driver's interface that the runtime uses, opened at run time: what PREHEAT_CUDA_DRIVER names,
// else libcuda.so.1. No CUDA header is needed and nothing is linked.

using Result = int;  // CUresult; 0 is success
using DevicePointer = uint64_t;
using Context = void*;
using Module = void*;
using Function = void*;
using StreamHandle = void*;
using EventHandle = void*;
using GraphHandle = void*;
using GraphNode = void*;
using GraphExec = void*;

// CUDA_KERNEL_NODE_PARAMS_v2.
struct KernelNode {
  Function function;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  Context context;
};

struct DeviceUuid {
  unsigned char bytes[16];
};

struct Driver {
  Result (*Init)(unsigned flags);
  Result (*DeviceGet)(int* device, int ordinal);
  Result (*DeviceGetCount)(int* count);
  Result (*DeviceGetName)(char* name, int capacity, int device);
  Result (*DeviceGetUuid)(DeviceUuid* uuid, int device);
  Result (*DeviceGetAttribute)(int* value, int attribute, int device);
  Result (*DevicePrimaryCtxRetain)(Context*, int device);
  Result (*CtxGetCurrent)(Context*);
  Result (*CtxGetDevice)(int* device);
  Result (*CtxPushCurrent)(Context);
  Result (*CtxPopCurrent)(Context*);
  Result (*MemAlloc)(DevicePointer*, size_t bytes);
  Result (*MemFree)(DevicePointer);
  Result (*MemHostAlloc)(void**, size_t bytes, unsigned flags);
  Result (*MemFreeHost)(void*);
  Result (*Memcpy)(DevicePointer to, DevicePointer from, size_t bytes);
  Result (*ModuleLoadData)(Module*, const void* image);
  Result (*ModuleUnload)(Module);
  Result (*ModuleGetFunction)(Function*, Module, const char* name);
  Result (*FuncSetAttribute)(Function, int attribute, int value);
  Result (*LaunchKernel)(Function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                         unsigned shared_bytes, StreamHandle, void** parameters, void** extra);
  Result (*LaunchHostFunc)(StreamHandle, void (*function)(void* data), void* data);
  Result (*EventCreate)(EventHandle*, unsigned flags);
  Result (*EventRecord)(EventHandle, StreamHandle);
  Result (*EventSynchronize)(EventHandle);
  Result (*EventElapsedTime)(float* milliseconds, EventHandle, EventHandle);
  Result (*EventDestroy)(EventHandle);
  Result (*StreamSynchronize)(StreamHandle);
  Result (*StreamCreate)(StreamHandle*, unsigned flags);
  Result (*StreamDestroy)(StreamHandle);
  Result (*StreamBeginCapture)(StreamHandle, int mode);
  Result (*StreamEndCapture)(StreamHandle, GraphHandle*);
  Result (*StreamIsCapturing)(StreamHandle, int* status);
  Result (*GraphCreate)(GraphHandle*, unsigned flags);
  Result (*GraphDestroy)(GraphHandle);
  Result (*GraphAddKernelNode)(GraphNode*, GraphHandle, const GraphNode* after, size_t num_after, const KernelNode*);
  Result (*GraphAddChildGraphNode)(GraphNode*, GraphHandle, const GraphNode* after, size_t num_after, GraphHandle);
  Result (*GraphInstantiate)(GraphExec*, GraphHandle, unsigned long long flags);
  Result (*GraphExecDestroy)(GraphExec);
  Result (*GraphExecKernelNodeSetParams)(GraphExec, GraphNode, const KernelNode*);
  Result (*GraphExecChildGraphNodeSetParams)(GraphExec, GraphNode, GraphHandle);
  Result (*GraphLaunch)(GraphExec, StreamHandle);
  Result (*GetErrorName)(Result, const char**);
  Result (*GetErrorString)(Result, const char**);
};

inline constexpr int kMultiprocessors = 16, kMemoryClock = 36;                    // of a device
inline constexpr int kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76;  // device attributes
inline constexpr int kMaxDynamicSharedBytes = 8;                                  // a function attribute
inline constexpr unsigned kPortable = 1, kDeviceMapped = 2;                       // of host memory
inline constexpr unsigned kNonBlocking = 1;                                       // of a stream
inline constexpr int kCaptureRelaxed = 2;

// The driver, initialized. FAILED_PRECONDITION "no_cuda_driver".
absl::StatusOr<const Driver*> OpenDriver();

// OK, or what failed with the driver's words: RESOURCE_EXHAUSTED "out_of_memory", otherwise INTERNAL "cuda_error".
absl::Status Check(const Driver& driver, Result result, absl::string_view what);

// Makes a context current for a scope, unless it already is.
class ContextScope {
 public:
  ContextScope(const Driver& driver, Context context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

}  // namespace preheat::cuda

#endif  // PREHEAT_KERNELS_DEVICE_CUDA_DRIVER_H_
