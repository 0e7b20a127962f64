#include "kernels/device/parallel_for.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace preheat {
namespace {

std::atomic<int> forks{0};

// Known before any loop runs, so that no loop can be in flight in the parent without the handler in place.
const int fork_handler = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });

struct Range {
  int64_t begin, end;
};

// Thread `index` of `count`: the first extent % count threads get one iteration more.
Range RangeOf(int64_t extent, int index, int count) {
  const int64_t share = extent / count, rest = extent % count;
  const int64_t begin = index * share + std::min<int64_t>(index, rest);
  return {begin, begin + share + (index < rest ? 1 : 0)};
}

#if defined(__SANITIZE_THREAD__)
// libgomp is not instrumented, so ThreadSanitizer sees none of its synchronization: under it, plain threads.
void Spread(int threads, int64_t extent, RangeFunction body, const void* context) {
  std::vector<std::thread> pool;
  for (int i = 1; i < threads; ++i) {
    pool.emplace_back([=] {
      const Range range = RangeOf(extent, i, threads);
      body(context, range.begin, range.end, i);
    });
  }
  const Range range = RangeOf(extent, 0, threads);
  body(context, range.begin, range.end, 0);
  for (std::thread& thread : pool) thread.join();
}
#else
void Spread(int threads, int64_t extent, RangeFunction body, const void* context) {
#pragma omp parallel num_threads(threads)
  {
    // OpenMP may give fewer threads than asked for; every index is served all the same.
    const int count = omp_get_num_threads();
    for (int i = omp_get_thread_num(); i < threads; i += count) {
      const Range range = RangeOf(extent, i, threads);
      if (range.begin < range.end) body(context, range.begin, range.end, i);
    }
  }
}
#endif

}  // namespace

int ForkGeneration() { return forks.load(std::memory_order_relaxed); }

int MaxThreads() {
  if (ForkGeneration() > 0 || omp_in_parallel()) return 1;
  return std::max(1, omp_get_max_threads());
}

int ThreadsFor(int64_t extent, int64_t grain) {
  const int64_t worth = extent / std::max<int64_t>(1, grain);
  if (worth <= 1) return 1;
  return static_cast<int>(std::min<int64_t>(worth, MaxThreads()));
}

void ParallelRanges(int threads, int64_t extent, RangeFunction body, const void* context) {
  if (extent <= 0) return;
  if (threads <= 1) return body(context, 0, extent, 0);
  Spread(threads, extent, body, context);
}

ThreadLimit::ThreadLimit(int threads) {
  if (ForkGeneration() > 0) threads = 1;  // for libraries with loops of their own
  if (threads <= 0 || threads == omp_get_max_threads()) return;
  before_ = omp_get_max_threads();
  omp_set_num_threads(threads);
}

ThreadLimit::~ThreadLimit() {
  if (before_ > 0) omp_set_num_threads(before_);
}

}  // namespace preheat
