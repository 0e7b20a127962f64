#include "compiler/capture/json_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/capture/limits.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

// What parsing would come to, told from the text alone.
struct Extent {
  int depth = 0;            // of the deepest bracket
  size_t memory_bytes = 0;  // of the parsed values: two characters of text may be sixty bytes
};

Extent Measure(absl::string_view text) {
  constexpr size_t kContainerBytes = 64, kMemberBytes = 112, kElementBytes = 32;
  Extent extent{.depth = 0, .memory_bytes = text.size()};
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '{' || c == '[') extent.depth = std::max(extent.depth, ++depth);
    if (c == '{' || c == '[') extent.memory_bytes += kContainerBytes;
    if (c == ':') extent.memory_bytes += kMemberBytes;
    if (c == ',') extent.memory_bytes += kElementBytes;
    if (c == '}' || c == ']') --depth;
  }
  return extent;
}

}  // namespace

absl::Status Malformed(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "malformed_archive",
                    .message = std::string(what),
                    .where = "",
                    .fix = "write the archive again with torch.export.save or preheat.export"});
}

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  if (text.size() > kMaxProgramBytes)
    return Malformed(absl::StrCat("JSON of ", text.size(), " bytes; at most ", kMaxProgramBytes, " are read"));
  const Extent extent = Measure(text);
  if (extent.memory_bytes > kMaxJsonMemory)
    return Malformed(absl::StrCat("JSON that would take ", extent.memory_bytes >> 20, " MiB of memory; at most ",
                                  kMaxJsonMemory >> 20, " are given"));
  if (extent.depth > kMaxJsonDepth) return Malformed(absl::StrCat("JSON is nested more than ", kMaxJsonDepth, " deep"));
  Json parsed = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return Malformed("text is not JSON");
  return parsed;
}

const Json& Field(const Json& object, const char* name) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  auto it = object.find(name);
  return it == object.end() ? kNull : *it;
}

const std::string& Text(const Json& value) {
  static const std::string kEmpty;
  const std::string* text = value.get_ptr<const Json::string_t*>();
  return text == nullptr ? kEmpty : *text;
}

}  // namespace preheat::capture
