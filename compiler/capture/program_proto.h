#ifndef PREHEAT_COMPILER_CAPTURE_PROGRAM_PROTO_H_
#define PREHEAT_COMPILER_CAPTURE_PROGRAM_PROTO_H_

#include "absl/status/statusor.h"
#include "compiler/capture/aten_program.h"
#include "proto/preheat/v1/program.pb.h"

namespace preheat::capture {

inline constexpr uint32_t kProgramFormat = 1;

// The program as it travels; nothing is lost.
v1::Program ToProto(const AtenProgram& program);

// Reads what came over a wire and trusts none of it: every id, size and expression is checked, values are
// defined once and before they are used. Kinds: "unsupported_program_format", "unknown_dtype" and those of
// check_program.h.
absl::StatusOr<AtenProgram> FromProto(const v1::Program& proto);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_PROGRAM_PROTO_H_
