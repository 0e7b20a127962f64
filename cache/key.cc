#include "cache/key.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/support/digest.h"

namespace preheat::cache {
namespace {

// Changing what is hashed or how means a new name here, so that old entries are never taken for new ones.
constexpr char kKeyFormat[] = "preheat-key-1";
constexpr char kAliasFormat[] = "preheat-alias-1";
constexpr size_t kLongestShownValue = 256;

using Fields = std::vector<std::pair<std::string, std::string>>;

// Each field with its length before it: no two different lists give the same bytes.
std::string HashFields(const Fields& fields) {
  std::string bytes;
  for (const auto& [name, value] : fields) absl::StrAppend(&bytes, name, ":", value.size(), ":", value, "\n");
  return Digest(bytes);
}

// The same bytes for the same message, maps included, within one build of the server.
std::string Deterministic(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

std::string JoinLengthPrefixed(const std::set<std::string>& items) {
  return absl::StrJoin(items, ",",
                       [](std::string* out, const std::string& item) { absl::StrAppend(out, item.size(), ":", item); });
}

// A compiler that has no part in the artifact stays out of its key.
Fields ToolchainFields(const v1::Toolchain& toolchain, absl::string_view target) {
  Fields fields = {{"compiler_epoch", absl::StrCat(toolchain.compiler_epoch())},
                   {"plan_version", absl::StrCat(toolchain.plan_version())}};
  if (absl::StartsWith(target, "cuda:")) {
    fields.emplace_back("device_compiler", toolchain.device_compiler());
  } else {
    fields.emplace_back("host_compiler", toolchain.host_compiler());
  }
  return fields;
}

void Append(Fields& fields, const Fields& more) { fields.insert(fields.end(), more.begin(), more.end()); }

// Names, places and their numbers.
v1::Source WithoutDebugInfo(const v1::Source& source) {
  v1::Source stripped = source;
  if (!stripped.has_program()) return stripped;
  stripped.mutable_program()->clear_debug_info();
  for (v1::Node& node : *stripped.mutable_program()->mutable_nodes()) node.clear_debug_id();
  return stripped;
}

}  // namespace

Key BuildKey(const KeyInputs& inputs) {
  Fields fields = {{"format", kKeyFormat}, {"ir", inputs.ir_text}, {"target", inputs.target}};
  Append(fields, ToolchainFields(inputs.toolchain, inputs.target));
  fields.emplace_back("freeze", inputs.freeze ? "true" : "false");
  fields.emplace_back("exclude", JoinLengthPrefixed(inputs.exclude));
  Key key{.digest = HashFields(fields), .fields = {}};
  for (const auto& [name, value] : fields) {
    key.fields[name] = value.size() <= kLongestShownValue ? value : absl::StrCat("sha256:", Digest(value));
  }
  return key;
}

std::string BuildAlias(const v1::CompileRequest& request, absl::string_view target, const v1::Toolchain& toolchain) {
  v1::CompileRequest dims;
  *dims.mutable_dims() = request.dims();
  std::set<std::string> exclude(request.exclude().begin(), request.exclude().end());
  Fields fields = {{"format", kAliasFormat},
                   {"source", Deterministic(WithoutDebugInfo(request.source()))},
                   {"dims", Deterministic(dims)},
                   {"target", std::string(target)}};
  Append(fields, ToolchainFields(toolchain, target));
  fields.emplace_back("freeze", request.freeze() ? "true" : "false");
  fields.emplace_back("exclude", JoinLengthPrefixed(exclude));
  return HashFields(fields);
}

}  // namespace preheat::cache
