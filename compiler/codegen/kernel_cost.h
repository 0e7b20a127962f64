#ifndef PREHEAT_COMPILER_CODEGEN_KERNEL_COST_H_
#define PREHEAT_COMPILER_CODEGEN_KERNEL_COST_H_

#include <cstdint>
#include <optional>

#include "compiler/codegen/loop_ir.h"

namespace preheat::codegen {

// Nanoseconds of estimated work worth a thread. Regions of twelve architectures were run by one thread and by two (AMD
// EPYC of the family 26, two cores): of less than three microseconds two were up to four times slower, from six on they
// were faster, whatever the work was. Calling a thread that waits takes less than half a microsecond; the rest is data
// that the other thread does not have in its own cache, and leaves there.
inline constexpr int64_t kWorthAThread = 2500;

// About how many nanoseconds one thread of a CPU takes for one item of a kernel, its data in the second-level cache:
// what is needed to say whether waking another thread pays. Nothing where a loop's size is not known.
//
// Few constants (kernel_cost.cc), measured on the regions of twelve architectures, each run by one thread and by two
// (tests/bench/tuning.py, AVX-512): most estimates are within a factor of two of hot data. Data from further away takes
// up to ten times as long; nothing here knows where they are.
std::optional<double> ItemNanoseconds(const Kernel& kernel);

// How many items are the least for a thread that is to have `least` nanoseconds of work: as many threads as that allows
// have about the same share. 1 where the work is not known.
int64_t GrainFor(const Kernel& kernel, int64_t least);

// Whether the innermost loops of a kernel that reduces take fewer steps by vectors of 8 f32 than by vectors of 16, what
// is left over being done one by one: 24 elements in 3 steps, not in 9. (Where nothing is folded, g++ does the rest of
// a loop by shorter vectors, and wide ones are up to 30% faster at 24, 40 and 72 elements.)
bool FitsNarrowVectors(const Kernel& kernel);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_KERNEL_COST_H_
