#include "proto/source_digest.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <optional>
#include <utility>
#include <vector>

#include "compiler/support/hasher.h"

namespace preheat {
namespace {

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

}  // namespace

std::string SourceDigest(v1::Source& source) {
  std::optional<DebugInfoAside> aside;
  if (source.has_program()) aside.emplace(*source.mutable_program());
  Hasher hasher;
  HashingStream pieces(hasher);
  {
    google::protobuf::io::CopyingOutputStreamAdaptor stream(&pieces, 1 << 16);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    source.SerializeToCodedStream(&coded);
  }
  return hasher.Finish();
}

}  // namespace preheat
