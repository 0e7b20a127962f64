#ifndef PREHEAT_CLIENT_COMPILECTL_INPUT_SPEC_H_
#define PREHEAT_CLIENT_COMPILECTL_INPUT_SPEC_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "compiler/capture/aten_program.h"

namespace preheat::cli {

// Reads "x=f32[8,128]" against the program: the input must exist and have that dtype and rank, fixed dimensions must
// agree, and symbols that stand alone get their values in `dims`, by name. INVALID_ARGUMENT "malformed_input",
// "unknown_input", "dtype_mismatch", "shape_mismatch", "conflicting_dimension".
absl::Status AddInputShape(const std::string& text, const capture::AtenProgram& program,
                           std::map<std::string, int64_t>& dims);

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_INPUT_SPEC_H_
