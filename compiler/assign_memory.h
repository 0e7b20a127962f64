#ifndef PREHEAT_COMPILER_ASSIGN_MEMORY_H_
#define PREHEAT_COMPILER_ASSIGN_MEMORY_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "compiler/artifact/plan_model.h"

namespace preheat {

// When the buffers of a plan hold something: the first and the last step of the run that touches each; -1: the
// prologue.
using BufferLives = std::map<uint32_t, std::pair<int, int>>;

// A step of the run that may write one buffer over another that it reads.
struct InPlaceStep {
  int step = 0;
  uint32_t written = 0, read = 0;
};

// Says where the buffers of a run's arena and of the session lie, and how large the two are. Buffers that do not live
// at the same time share memory, and so do
// - what a step reads for the last time and what it writes in its place,
// - with `lend`, what is needed for a while and a result of known size that is written only afterwards (or by the last
//   step that reads the former, in its place): the caller has it ready from the start. Not in programs with steps that
//   torch runs.
void AssignMemory(artifact::Plan& plan, const BufferLives& lives, const std::vector<InPlaceStep>& in_place, bool lend);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_ASSIGN_MEMORY_H_
