#include "client/cpp/ask_by_digest.h"

#include <memory>

#include "compiler/support/error.h"

namespace preheat {
namespace {

// A round trip takes a fraction of a millisecond, as do sending, parsing and hashing this many bytes.
constexpr size_t kLargeBytes = 16384;

}  // namespace

bool IsLarge(const v1::Source& source) { return source.ByteSizeLong() >= kLargeBytes; }

v1::CompileRequest ByDigest(v1::CompileRequest& whole, const std::string& digest) {
  std::unique_ptr<v1::Source> source(whole.release_source());
  v1::CompileRequest brief = whole;
  whole.set_allocated_source(source.release());
  brief.set_source_digest(digest);
  return brief;
}

Need NeedAfter(const absl::Status& status, v1::Result result) {
  if (status.ok()) return result == v1::SOURCE_NEEDED ? Need::kSource : Need::kNothing;
  const Error error = GetError(status);
  const bool knows_no_digests = error.kind == "invalid_request" && error.where == "source";
  return knows_no_digests ? Need::kSourceEverywhere : Need::kNothing;
}

void NameBoundary(const v1::Source& source, v1::CompileResult& result) {
  if (!source.has_program()) return;
  const v1::DebugInfo& names = source.program().debug_info();
  for (int i = 0; i < result.inputs_size(); ++i)
    result.mutable_inputs(i)->set_name(i < names.input_names_size() ? names.input_names(i) : "");
  for (int i = 0; i < result.outputs_size(); ++i)
    result.mutable_outputs(i)->set_name(i < names.output_names_size() ? names.output_names(i) : "");
}

}  // namespace preheat
