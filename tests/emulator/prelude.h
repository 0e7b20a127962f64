// Put before an emitted CUDA kernel, lets a host compiler take it: the emulator (emulator.cc) runs the threads of a
// block one after another between barriers.
#include <math.h>
#include <string.h>

struct PreheatDim3 {
  unsigned x, y, z;
};
struct PreheatThread {
  PreheatDim3 thread, block, threads, blocks;
  char* dynamic;     // shared memory of the block
  long long* slots;  // one a thread of the block
  void (*block_barrier)();
  void (*warp_barrier)();
};
struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
extern "C" PreheatThread* preheat_thread;
PreheatThread* preheat_thread;  // set by the emulator

#define __global__
#define __device__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one at a time
#define __align__(n) __attribute__((aligned(n)))
#define threadIdx (preheat_thread->thread)
#define blockIdx (preheat_thread->block)
#define blockDim (preheat_thread->threads)
#define gridDim (preheat_thread->blocks)
#define __syncthreads() preheat_thread->block_barrier()
#define __syncwarp() preheat_thread->warp_barrier()

inline int __popc(unsigned x) { return __builtin_popcount(x); }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  const unsigned mine = threadIdx.y * blockDim.x + threadIdx.x;
  memcpy(&preheat_thread->slots[mine], &value, sizeof(T));
  __syncwarp();
  T other;
  memcpy(&other, &preheat_thread->slots[mine ^ (unsigned)mask], sizeof(T));
  __syncwarp();
  return other;
}

template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned by) {
  const unsigned mine = threadIdx.y * blockDim.x + threadIdx.x;
  memcpy(&preheat_thread->slots[mine], &value, sizeof(T));
  __syncwarp();
  T other = value;
  if ((mine & 31u) >= by) memcpy(&other, &preheat_thread->slots[mine - by], sizeof(T));
  __syncwarp();
  return other;
}

inline unsigned __ballot_sync(unsigned, int predicate) {
  const unsigned mine = threadIdx.y * blockDim.x + threadIdx.x;
  preheat_thread->slots[mine] = predicate != 0;
  __syncwarp();
  unsigned mask = 0;
  for (unsigned lane = 0; lane < 32; ++lane) mask |= (unsigned)preheat_thread->slots[(mine & ~31u) + lane] << lane;
  __syncwarp();
  return mask;
}
