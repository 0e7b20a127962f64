#ifndef PREHEAT_COMPILER_CAPTURE_EXPORT_ARCHIVE_H_
#define PREHEAT_COMPILER_CAPTURE_EXPORT_ARCHIVE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/capture/aten_program.h"

namespace preheat::capture {

// The parts of a torch.export archive (.pt2) that a program is made of; whoever unzips hands them in.
struct ExportArchive {
  absl::string_view model_json;  // models/<name>.json

  // Lifted tensor constants by their name in the signature ("lifted_tensor_0"): dense, row-major,
  // little-endian bytes. Those of at most kMaxConstantBytes travel inside the program; give only these:
  // a constant without bytes becomes an input of kind kConstant.
  std::map<std::string, std::string> constants;

  // extra/preheat/dims.json, which preheat.export adds; may be empty. A JSON object that names dimensions:
  // {"ids.1": "seq"}: the key is "input.axis", the value what people call it. Each name holds for the
  // symbol that stands alone at that place; where no symbol does, the entry has no effect.
  absl::string_view dims_json;
};

// Reads what torch.export.save of torch 2.11 writes (schema major 8; other majors: kind
// "unsupported_schema"). The program still mutates as the source does: functionalize.h follows.
//
// Symbols become d0, d1, ... in order of first appearance; size arithmetic becomes expressions, without
// nodes. Regions that only switch gradients or autocast off are inlined. Errors name the node.
absl::StatusOr<AtenProgram> ImportExportedModel(const ExportArchive& archive);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_EXPORT_ARCHIVE_H_
