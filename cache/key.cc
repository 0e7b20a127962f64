#include "cache/key.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/support/digest.h"
#include "proto/source_digest.h"

namespace preheat::cache {
namespace {

// Changing what is hashed or how means a new name here, so that old entries are never taken for new ones.
constexpr char kKeyFormat[] = "preheat-key-1";
constexpr char kAliasFormat[] = "preheat-alias-3";
constexpr size_t kLongestShownValue = 256;

using Fields = std::vector<std::pair<std::string, std::string>>;

// Each field with its length before it: no two different lists give the same bytes.
std::string HashFields(const Fields& fields) {
  std::string bytes;
  for (const auto& [name, value] : fields) absl::StrAppend(&bytes, name, ":", value.size(), ":", value, "\n");
  return Digest(bytes);
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

// Sorted, as a map of Protobuf is not.
std::string HashDims(const v1::CompileRequest& request) {
  Fields fields;
  for (const auto& [name, value] : std::map<std::string, int64_t>(request.dims().begin(), request.dims().end()))
    fields.emplace_back(name, absl::StrCat(value));
  return HashFields(fields);
}

// A request that brings no source says which one it means.
std::string SourceOf(v1::CompileRequest& request) {
  const bool has_source = request.source().kind_case() != v1::Source::KIND_NOT_SET;
  return has_source ? SourceDigest(*request.mutable_source()) : request.source_digest();
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

std::string BuildAlias(v1::CompileRequest& request, absl::string_view target, const v1::Toolchain& toolchain) {
  std::set<std::string> exclude(request.exclude().begin(), request.exclude().end());
  Fields fields = {{"format", kAliasFormat},
                   {"source", SourceOf(request)},
                   {"dims", HashDims(request)},
                   {"target", std::string(target)}};
  Append(fields, ToolchainFields(toolchain, target));
  fields.emplace_back("freeze", request.freeze() ? "true" : "false");
  fields.emplace_back("exclude", JoinLengthPrefixed(exclude));
  return HashFields(fields);
}

}  // namespace preheat::cache
