#ifndef PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_PLACES_H_
#define PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_PLACES_H_

#include <torch/csrc/jit/ir/ir.h>

#include <string>

#include "absl/status/status.h"

namespace preheat::capture {

// "model.py:12", of the source that was scripted or traced where the archive still knows it.
std::string PlaceOf(torch::jit::Node* node);

// UNIMPLEMENTED "unsupported_torch_script" and "data_dependent_control_flow", at the node's place.
absl::Status Unsupported(torch::jit::Node* node, const std::string& what);
absl::Status DataDependent(torch::jit::Node* node, const std::string& what);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_PLACES_H_
