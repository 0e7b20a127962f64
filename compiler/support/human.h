#ifndef PREHEAT_COMPILER_SUPPORT_HUMAN_H_
#define PREHEAT_COMPILER_SUPPORT_HUMAN_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace preheat {

// How numbers and foreign text read to people, on terminals and pages.

// "1.5 MiB", "12 B"
std::string HumanBytes(int64_t bytes);
// "12.3 s", "4.56 ms", "1 h 02 min", "3 d 04 h"; "-" for what is not finite.
std::string HumanSeconds(double seconds);
// An age, coarsely: "now", "12 s", "5 min", "3 h", "4 d".
std::string HumanAge(double seconds);
// Four significant digits; "-" for what is not finite.
std::string HumanNumber(double value);

// Text that others chose (names, messages) without what would move a cursor or break an encoding: control characters
// and bytes that are no UTF-8 become '?'.
std::string Printable(absl::string_view text);
// Columns that printable text takes on a terminal: its code points.
size_t Columns(absl::string_view text);
// At most `columns` of them; longer text ends with "...".
std::string Shorten(absl::string_view text, size_t columns);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_SUPPORT_HUMAN_H_
