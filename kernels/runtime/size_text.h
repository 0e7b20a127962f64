#ifndef PREHEAT_KERNELS_RUNTIME_SIZE_TEXT_H_
#define PREHEAT_KERNELS_RUNTIME_SIZE_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/runtime/plan_view.h"

namespace preheat::runtime {

// Extern calls carry sizes as {"e":"2*d0 + 1"}: text of the compiler's expressions over the plan's symbols, with + - *
// ( ), floordiv, mod, max and min. Gives the call with each replaced by its number. DATA_LOSS "corrupt_artifact" when
// the text is no expression or names an unknown symbol; OUT_OF_RANGE as EvaluateSizes.
absl::StatusOr<std::string> SubstituteSizes(absl::string_view call, const plan::Plan& plan, const int64_t* symbols);

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_SIZE_TEXT_H_
