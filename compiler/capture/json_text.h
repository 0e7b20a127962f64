#ifndef PREHEAT_COMPILER_CAPTURE_JSON_TEXT_H_
#define PREHEAT_COMPILER_CAPTURE_JSON_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace preheat::capture {

using Json = nlohmann::json;

// JSON from outside: size and nesting bounded before the parser sees it, no exception leaves.
// Kind "malformed_archive".
absl::StatusOr<Json> ParseJson(absl::string_view text);

// The member, or null where `object` is no object or lacks it. Never throws, never inserts.
const Json& Field(const Json& object, const char* name);

// The text of a JSON string, "" of anything else.
const std::string& Text(const Json& value);

// The status of an archive that does not hold what it must: INVALID_ARGUMENT, kind "malformed_archive".
absl::Status Malformed(absl::string_view what);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_JSON_TEXT_H_
