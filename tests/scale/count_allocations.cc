// Replaces operator new for the whole program. A file of its own: where both are seen, compilers take malloc behind new
// for a mistake.

#include "tests/scale/count_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> allocations = 0;
}  // namespace

void* operator new(size_t size, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size != 0 ? size : 1);
}
void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace preheat::testing {

int64_t Allocations() { return allocations.load(std::memory_order_relaxed); }

}  // namespace preheat::testing
