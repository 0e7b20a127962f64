#ifndef PREHEAT_COMPILER_SUPPORT_DEFAULT_FIX_H_
#define PREHEAT_COMPILER_SUPPORT_DEFAULT_FIX_H_

#include "absl/strings/string_view.h"

namespace preheat {

// What to do about an error of that kind, for places that know nothing better; "" for a kind whose places all do.
// GetError fills it in.
absl::string_view DefaultFix(absl::string_view kind);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_SUPPORT_DEFAULT_FIX_H_
