#ifndef PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_INPUT_TEXT_H_
#define PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_INPUT_TEXT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/ir/dtype.h"

namespace preheat::capture {

// An input as a request describes it.
struct InputText {
  std::string name;
  ir::DType dtype = ir::DType::kF32;
  std::vector<int64_t> sizes;
};

// "x=f32[batch,128]" with the values that names have: INVALID_ARGUMENT "malformed_input", "unbound_dimension". Names
// that were used are noted in `used`.
absl::StatusOr<InputText> ParseInputText(absl::string_view text, const std::map<std::string, int64_t>& dims,
                                         std::map<std::string, int64_t>& used);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_INPUT_TEXT_H_
