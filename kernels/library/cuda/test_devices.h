#ifndef PREHEAT_KERNELS_LIBRARY_CUDA_TEST_DEVICES_H_
#define PREHEAT_KERNELS_LIBRARY_CUDA_TEST_DEVICES_H_

namespace preheat::library {

// An H200, as cuDNN writes devices down.
inline constexpr char kHopper[] =
    R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
        "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
        "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
        "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 9013,
        "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 150000000000, "smClockRateKHz": 1980000,
        "memClockRateKHz": 3201000, "l2CacheSize": 62914560, "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000,
        "deviceName": "NVIDIA H200"})";

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_CUDA_TEST_DEVICES_H_
