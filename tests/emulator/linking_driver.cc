// As much of a CUDA driver (libcuda.so.1) as cuDNN asks for when it makes a plan for a device that is not here: it
// compiles the kernel, links it, and is told that all went well. Nothing runs. What cuDNN looks up must be there by
// name; of most of it nothing is called.

#define PREHEAT_YES(name) \
  extern "C" int name() { return 0; }
#define PREHEAT_HANDLE(name) \
  extern "C" int name(void** made) { return *made = reinterpret_cast<void*>(16), 0; }

extern "C" int cuInit(unsigned) { return 100; }  // no device
extern "C" int cuDriverGetVersion(int* version) { return *version = 13000, 0; }

PREHEAT_HANDLE(cuLibraryGetKernel)
PREHEAT_HANDLE(cuLibraryLoadData)
PREHEAT_HANDLE(cuLibraryLoadFromFile)
PREHEAT_HANDLE(cuModuleGetFunction)
PREHEAT_HANDLE(cuModuleLoadData)
PREHEAT_HANDLE(cuModuleLoadFatBinary)

PREHEAT_YES(cuCtxGetCurrent)
PREHEAT_YES(cuCtxGetDevice)
PREHEAT_YES(cuCtxGetLimit)
PREHEAT_YES(cuCtxPopCurrent)
PREHEAT_YES(cuCtxPushCurrent)
PREHEAT_YES(cuDeviceGet)
PREHEAT_YES(cuDeviceGetAttribute)
PREHEAT_YES(cuDeviceGetCount)
PREHEAT_YES(cuDevicePrimaryCtxRelease)
PREHEAT_YES(cuDevicePrimaryCtxReset)
PREHEAT_YES(cuDevicePrimaryCtxRetain)
PREHEAT_YES(cuFuncGetAttribute)
PREHEAT_YES(cuFuncSetAttribute)
PREHEAT_YES(cuGetErrorName)
PREHEAT_YES(cuGetErrorString)
PREHEAT_YES(cuKernelGetAttribute)
PREHEAT_YES(cuKernelSetAttribute)
PREHEAT_YES(cuLaunchCooperativeKernel)
PREHEAT_YES(cuLaunchKernel)
PREHEAT_YES(cuLaunchKernelEx)
PREHEAT_YES(cuLibraryUnload)
PREHEAT_YES(cuLinkAddData)
PREHEAT_YES(cuLinkComplete)
PREHEAT_YES(cuLinkCreate)
PREHEAT_YES(cuLinkDestroy)
PREHEAT_YES(cuMemcpyDtoH_v2)
PREHEAT_YES(cuModuleGetGlobal_v2)
PREHEAT_YES(cuModuleUnload)
PREHEAT_YES(cuOccupancyMaxActiveBlocksPerMultiprocessor)
PREHEAT_YES(cuOccupancyMaxPotentialClusterSize)
PREHEAT_YES(cuStreamGetCtx)
PREHEAT_YES(cuStreamSynchronize)
