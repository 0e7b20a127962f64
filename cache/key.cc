#include "cache/key.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/support/digest.h"
#include "compiler/support/hasher.h"

namespace preheat::cache {
namespace {

// Changing what is hashed or how means a new name here, so that old entries are never taken for new ones.
constexpr char kKeyFormat[] = "preheat-key-1";
constexpr char kAliasFormat[] = "preheat-alias-2";
constexpr size_t kLongestShownValue = 256;

using Fields = std::vector<std::pair<std::string, std::string>>;

// Each field with its length before it: no two different lists give the same bytes.
std::string HashFields(const Fields& fields) {
  std::string bytes;
  for (const auto& [name, value] : fields) absl::StrAppend(&bytes, name, ":", value.size(), ":", value, "\n");
  return Digest(bytes);
}

// Where a message is serialized to be hashed, a piece at a time.
class HashingStream : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit HashingStream(Hasher& hasher) : hasher_(hasher) {}
  bool Write(const void* bytes, int size) override {
    hasher_.Update({static_cast<const char*>(bytes), static_cast<size_t>(size)});
    return true;
  }

 private:
  Hasher& hasher_;
};

// The same bytes for the same message, maps included, within one build of the server.
void HashDeterministic(const google::protobuf::Message& message, Hasher& hasher) {
  HashingStream pieces(hasher);
  google::protobuf::io::CopyingOutputStreamAdaptor stream(&pieces, 1 << 16);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
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

// Takes names, places and their numbers out of a program, for as long as it lives.
class DebugInfoAside {
 public:
  explicit DebugInfoAside(v1::Program& program) { Take(program); }
  ~DebugInfoAside() {
    for (auto& [program, info] : infos_) program->set_allocated_debug_info(info);
    for (auto& [node, id] : ids_) node->set_debug_id(id);
  }

 private:
  void Take(v1::Program& program) {
    if (program.has_debug_info()) infos_.emplace_back(&program, program.release_debug_info());
    for (v1::Node& node : *program.mutable_nodes()) {
      if (node.has_debug_id()) ids_.emplace_back(&node, node.debug_id());
      node.clear_debug_id();
      for (v1::Program& block : *node.mutable_blocks()) Take(block);
    }
  }

  std::vector<std::pair<v1::Program*, v1::DebugInfo*>> infos_;
  std::vector<std::pair<v1::Node*, uint32_t>> ids_;
};

std::string HashSource(v1::Source& source) {
  std::optional<DebugInfoAside> aside;
  if (source.has_program()) aside.emplace(*source.mutable_program());
  Hasher hasher;
  HashDeterministic(source, hasher);
  return hasher.Finish();
}

std::string HashDims(const v1::CompileRequest& request) {
  v1::CompileRequest dims;
  *dims.mutable_dims() = request.dims();
  Hasher hasher;
  HashDeterministic(dims, hasher);
  return hasher.Finish();
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
                   {"source", HashSource(*request.mutable_source())},
                   {"dims", HashDims(request)},
                   {"target", std::string(target)}};
  Append(fields, ToolchainFields(toolchain, target));
  fields.emplace_back("freeze", request.freeze() ? "true" : "false");
  fields.emplace_back("exclude", JoinLengthPrefixed(exclude));
  return HashFields(fields);
}

}  // namespace preheat::cache
