#ifndef PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_IMPORT_TORCH_SCRIPT_H_
#define PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_IMPORT_TORCH_SCRIPT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/capture/aten_program.h"

namespace preheat::capture {

// What a client sends of a TorchScript file.
struct TorchScriptSource {
  std::string archive;                  // of torch.jit.save; storages of parameters and buffers may be cut to one byte
  std::vector<std::string> inputs;      // "x=f32[batch,128]", one for each tensor argument of forward
  std::map<std::string, int64_t> dims;  // values of all names in them: TorchScript has no shapes of its own
};

// A program from a TorchScript module, by LibTorch. The header needs no torch.
//
// forward is walked as torch's interpreter would, on tensors without memory: what does not depend on the contents of
// tensors (sizes, flags, attributes, lists, loops over layers, `if self.training`) is evaluated, and each operator of
// the dispatcher that meets a tensor becomes a node. Branches and loops that the contents of tensors steer become
// kIfOp and kWhileOp, whose place is the source line. Parameters and buffers become inputs under their names, those
// tensors that the code itself holds become constants. Operators stay whole and may mutate: Functionalize is next.
//
// INVALID_ARGUMENT "malformed_torch_script" for what LibTorch does not load or a call that fails, naming the source
// line; "missing_input", "malformed_input", "unbound_dimension", "unknown_dimension"; UNIMPLEMENTED
// "data_dependent_control_flow" where a size or list needs the contents of a tensor, or the ways that they decide
// between differ in type, and "unsupported_torch_script" for what has no place in a program (assigned attributes, other
// classes' methods), each with the line.
absl::StatusOr<AtenProgram> ImportTorchScript(const TorchScriptSource& source);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_IMPORT_TORCH_SCRIPT_H_
