#ifndef PREHEAT_KERNELS_RUNTIME_STEP_ORDER_H_
#define PREHEAT_KERNELS_RUNTIME_STEP_ORDER_H_

#include <cstdint>
#include <vector>

#include "kernels/runtime/bound_plan.h"

namespace preheat::runtime {

// How the steps of a recorded run wait for each other. Most go one after another, in the first lane. A long step whose
// result is not wanted soon (a weight's gradient, say, or one of three products of one input) goes into the second one,
// beside what follows; its result is waited for where it is read. More lanes, or short steps in the second, cost the
// host more than they save: a graph of 100 steps that wait for nobody takes it 80 microseconds to start, one after
// another 2.
struct StepOrder {
  std::vector<uint8_t> lane;                  // by step; idle kernels have none that counts
  std::vector<std::vector<uint32_t>> before;  // by step: earlier ones that must be done; not those that they wait for
};
inline constexpr size_t kLanes = 2;

// For a plain plan (kernels, library and extern calls). A step waits for those that write what it reads or writes, or
// read what it writes, among boundary tensors and in the arena. Steps of one lane never meet, so that they can share
// memory of their own.
StepOrder OrderSteps(const BoundPlan& bound);

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_STEP_ORDER_H_
