#ifndef PREHEAT_COMPILER_REFERENCE_ATEN_CALL_H_
#define PREHEAT_COMPILER_REFERENCE_ATEN_CALL_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/capture/aten_program.h"

namespace preheat::reference {

// What a call needs to know of its surroundings while it runs.
struct CallScope {
  std::function<c10::IValue(int value)> value;               // a tensor or an int64
  std::function<int64_t(const std::string& symbol)> symbol;  // of the integers that are expressions
};

// One operator of torch's, found by name, with its arguments by the schema: called boxed.
// Arguments that hold neither values nor symbols are converted once.
class AtenCall {
 public:
  // `results`: the types the program declares, which tell creation operators theirs. The arguments are copied.
  // UNIMPLEMENTED "unknown_operator", INVALID_ARGUMENT "malformed_program".
  static absl::StatusOr<AtenCall> Make(const std::string& op, absl::Span<const capture::NamedArgument> arguments,
                                       absl::Span<const ir::DType> results, bool float64);

  // All results in order, lists flattened; undefined tensors are None. Torch's errors become
  // INVALID_ARGUMENT "reference_failed".
  absl::StatusOr<std::vector<c10::IValue>> Run(const CallScope& scope) const;

  // Values that the arguments refer to.
  std::vector<int> Operands() const;

 private:
  struct Slot {
    const c10::Argument* formal;
    capture::Argument given;  // read when not `fixed`
    bool fixed = false;
    c10::IValue value;
  };
  explicit AtenCall(c10::OperatorHandle handle) : handle_(std::move(handle)) {}

  c10::OperatorHandle handle_;
  std::vector<Slot> slots_;
};

}  // namespace preheat::reference

#endif  // PREHEAT_COMPILER_REFERENCE_ATEN_CALL_H_
