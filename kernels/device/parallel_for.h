#ifndef PREHEAT_KERNELS_DEVICE_PARALLEL_FOR_H_
#define PREHEAT_KERNELS_DEVICE_PARALLEL_FOR_H_

#include <cstdint>

namespace preheat {

// The one place where the runtime makes threads: OpenMP's pool, which torch uses too, so that both share one.

// Threads that a loop of `extent` iterations deserves when `grain` of them are the least worth a thread: between 1 and
// MaxThreads(). 1 means that the loop runs on the calling thread and OpenMP is not touched.
int ThreadsFor(int64_t extent, int64_t grain);

// Threads that a loop started here may have: OpenMP's setting of the calling thread; 1 inside another parallel loop
// and in a forked child (libgomp's pool does not survive a fork).
int MaxThreads();

// How many forks lie between this process and the one that loaded the runtime: what libraries prepared for more threads
// than a child has must be prepared anew when it has grown.
int ForkGeneration();

// Calls body(context, begin, end, thread) on disjoint ranges that cover [0, extent), one a thread, `thread` in
// [0, threads). Returns when all are done. Allocates nothing. `threads` as ThreadsFor gave it.
using RangeFunction = void (*)(const void* context, int64_t begin, int64_t end, int thread);
void ParallelRanges(int threads, int64_t extent, RangeFunction body, const void* context);

// The same for a callable body(begin, end, thread).
template <typename Body>
void ParallelFor(int64_t extent, int64_t grain, const Body& body) {
  ParallelRanges(
      ThreadsFor(extent, grain), extent,
      [](const void* context, int64_t begin, int64_t end, int thread) {
        (*static_cast<const Body*>(context))(begin, end, thread);
      },
      &body);
}

// While it lives, loops started by this thread have at most `threads` threads; 0 changes nothing.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_ = 0;  // 0: nothing to restore
};

}  // namespace preheat

#endif  // PREHEAT_KERNELS_DEVICE_PARALLEL_FOR_H_
