#ifndef PREHEAT_COMPILER_SUPPORT_DIGEST_H_
#define PREHEAT_COMPILER_SUPPORT_DIGEST_H_

#include <string>

#include "absl/strings/string_view.h"

namespace preheat {

// SHA-256 of the bytes, as 64 lower-case hexadecimal digits: the name of a blob everywhere.
std::string Digest(absl::string_view bytes);

// True for 64 lower-case hexadecimal digits.
bool IsDigest(absl::string_view text);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_SUPPORT_DIGEST_H_
