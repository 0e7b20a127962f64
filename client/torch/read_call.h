#ifndef PREHEAT_CLIENT_TORCH_READ_CALL_H_
#define PREHEAT_CLIENT_TORCH_READ_CALL_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/capture/aten_program.h"

namespace preheat {

// An extern call as the handler makes it; compiler/capture/decompose/extern_call.h describes the text.
struct ReadCall {
  std::string op;
  std::vector<capture::NamedArgument> arguments;  // ValueRef ids are operand numbers
  std::set<int> skipped;                          // numbers of results that the program does not take
};

// INVALID_ARGUMENT "malformed_call" says what is wrong with the text.
absl::StatusOr<ReadCall> ReadExternCall(absl::string_view json);

}  // namespace preheat

#endif  // PREHEAT_CLIENT_TORCH_READ_CALL_H_
