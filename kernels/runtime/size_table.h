#ifndef PREHEAT_KERNELS_RUNTIME_SIZE_TABLE_H_
#define PREHEAT_KERNELS_RUNTIME_SIZE_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/runtime/plan_view.h"

namespace preheat::runtime {

// When the value of a size entry is known.
enum class Known : uint8_t {
  kAlways,    // no symbol in it
  kAtStart,   // symbols that inputs bind
  kAfterStep  // a symbol that a step of the plan defines
};

// One for each entry. REQUIRES: the table is checked (check_plan.h).
std::vector<Known> ClassifySizes(const plan::Plan& plan);

// The values of every entry for the symbols' values, into `values`: as many as the plan has entries. Division by zero
// gives 0, as in the compiler. OUT_OF_RANGE "size_out_of_range" when a value does not fit 64 bits. REQUIRES: the table
// is checked.
absl::Status EvaluateSizes(const plan::Plan& plan, const int64_t* symbols, int64_t* values);

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_SIZE_TABLE_H_
