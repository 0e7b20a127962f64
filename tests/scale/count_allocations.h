#ifndef PREHEAT_TESTS_SCALE_COUNT_ALLOCATIONS_H_
#define PREHEAT_TESTS_SCALE_COUNT_ALLOCATIONS_H_

#include <cstdint>

namespace preheat::testing {

// Calls of operator new so far, in a program that links count_allocations.cc.
int64_t Allocations();

}  // namespace preheat::testing

#endif  // PREHEAT_TESTS_SCALE_COUNT_ALLOCATIONS_H_
