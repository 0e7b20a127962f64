#include "compiler/capture/torch_script/places.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/support/error.h"

namespace preheat::capture {

std::string PlaceOf(torch::jit::Node* node) {
  torch::jit::SourceRange range = node->sourceRange();
  if (auto original = range.findSourceRangeThatGenerated()) range = *original;
  if (auto place = range.file_line_col()) return absl::StrCat(std::get<0>(*place), ":", std::get<1>(*place));
  std::vector<std::string> lines = absl::StrSplit(range.str(), '\n');
  return lines.empty() ? "" : std::string(absl::StripAsciiWhitespace(lines[0]));
}

absl::Status Unsupported(torch::jit::Node* node, const std::string& what) {
  return MakeError(absl::StatusCode::kUnimplemented,
                   {.kind = "unsupported_torch_script",
                    .message = absl::StrCat(what, " (", node->kind().toQualString(), ")"),
                    .where = PlaceOf(node),
                    .fix = "export the model with torch.export.save, or preheat.export"});
}

absl::Status DataDependent(torch::jit::Node* node, const std::string& what) {
  return MakeError(absl::StatusCode::kUnimplemented,
                   {.kind = "data_dependent_control_flow",
                    .message = absl::StrCat(what, " depends on the contents of a tensor"),
                    .where = PlaceOf(node),
                    .fix = "compute both ways and choose by torch.where, or compile the parts"});
}

}  // namespace preheat::capture
