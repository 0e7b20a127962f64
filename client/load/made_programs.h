#ifndef PREHEAT_CLIENT_LOAD_MADE_PROGRAMS_H_
#define PREHEAT_CLIENT_LOAD_MADE_PROGRAMS_H_

#include <cstdint>

#include "proto/preheat/v1/program.pb.h"

namespace preheat::load {

// A small program of its own for each (seed, index): pointwise, one kernel, the same in every process. Two different
// pairs give programs with different keys, as long as seeds are below 2^60 and indices below 2^20.
v1::Program MakeProgram(uint64_t seed, uint32_t index);

}  // namespace preheat::load

#endif  // PREHEAT_CLIENT_LOAD_MADE_PROGRAMS_H_
