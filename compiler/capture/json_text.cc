#include "compiler/capture/json_text.h"

#include "absl/strings/str_cat.h"
#include "compiler/capture/limits.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

// Brackets that are open at the deepest place, those in strings not counted.
int Depth(absl::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '{' || c == '[') deepest = std::max(deepest, ++depth);
    if (c == '}' || c == ']') --depth;
  }
  return deepest;
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
    return Malformed(absl::StrCat("JSON of ", text.size(), " bytes; at most 256 MiB are read"));
  if (Depth(text) > kMaxJsonDepth) return Malformed(absl::StrCat("JSON is nested more than ", kMaxJsonDepth, " deep"));
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
