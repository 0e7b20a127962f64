#include "compiler/capture/torch_script/import_torch_script.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/capture/torch_script/evaluator.h"
#include "compiler/capture/torch_script/input_text.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

absl::Status Invalid(const std::string& kind, const std::string& message, const std::string& where = "",
                     const std::string& fix = "") {
  return MakeError(absl::StatusCode::kInvalidArgument, {.kind = kind, .message = message, .where = where, .fix = fix});
}

c10::ScalarType ToTorch(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kBool: return at::kBool;
    case ir::DType::kU8: return at::kByte;
    case ir::DType::kI8: return at::kChar;
    case ir::DType::kI16: return at::kShort;
    case ir::DType::kI32: return at::kInt;
    case ir::DType::kI64: return at::kLong;
    case ir::DType::kF16: return at::kHalf;
    case ir::DType::kBF16: return at::kBFloat16;
    case ir::DType::kF64: return at::kDouble;
    case ir::DType::kC64: return at::kComplexFloat;
    case ir::DType::kC128: return at::kComplexDouble;
    case ir::DType::kF32: break;
  }
  return at::kFloat;
}

absl::StatusOr<std::map<std::string, InputText>> ReadInputs(const TorchScriptSource& source) {
  std::map<std::string, InputText> inputs;
  std::map<std::string, int64_t> used;
  for (const std::string& text : source.inputs) {
    ASSIGN_OR_RETURN(InputText input, ParseInputText(text, source.dims, used));
    const std::string name = input.name;
    if (!inputs.emplace(name, std::move(input)).second)
      return Invalid("malformed_input", absl::StrCat("input ", name, " is described twice"), text);
  }
  for (const auto& [name, value] : source.dims) {
    if (!used.count(name))
      return Invalid("unknown_dimension", absl::StrCat("no input has a dimension ", name), name,
                     "name dimensions in the inputs: x=f32[batch,128]");
  }
  return inputs;
}

// What forward is called with: tensors as described, for other arguments their defaults.
absl::StatusOr<std::vector<c10::IValue>> Arguments(const torch::jit::Method& forward,
                                                   std::map<std::string, InputText> inputs, ProgramBuilder& builder) {
  std::vector<c10::IValue> arguments = {forward.owner()._ivalue()};
  std::vector<std::string> names;
  const auto& formals = forward.function().getSchema().arguments();
  for (size_t i = 1; i < formals.size(); ++i) {
    names.push_back(formals[i].name());
    auto given = inputs.find(formals[i].name());
    if (given != inputs.end()) {
      at::Tensor shape = at::empty(given->second.sizes, at::TensorOptions().device(at::kMeta));
      arguments.emplace_back(builder.AddInput(given->first, ir::InputKind::kUser, shape.sizes(), shape.strides(),
                                              ToTorch(given->second.dtype)));
      inputs.erase(given);
    } else if (formals[i].default_value()) {
      arguments.push_back(*formals[i].default_value());
    } else if (formals[i].type()->kind() == c10::TypeKind::OptionalType) {
      arguments.emplace_back();
    } else {
      return Invalid("missing_input",
                     absl::StrCat("TorchScript has no shapes: input ", formals[i].name(), " needs one"),
                     formals[i].name(), absl::StrCat("give --input ", formals[i].name(), "=f32[...]"));
    }
  }
  if (!inputs.empty()) {
    return Invalid("unknown_input", absl::StrCat("forward has no input ", inputs.begin()->first), inputs.begin()->first,
                   absl::StrCat("its inputs are ", absl::StrJoin(names, ", ")));
  }
  return arguments;
}

absl::StatusOr<AtenProgram> Import(const TorchScriptSource& source) {
  ASSIGN_OR_RETURN(auto inputs, ReadInputs(source));
  std::istringstream archive(source.archive);
  torch::jit::Module module = torch::jit::load(archive);
  at::NoGradGuard no_grad;
  ProgramBuilder builder;
  torch::jit::Method forward = module.get_method("forward");
  ASSIGN_OR_RETURN(std::vector<c10::IValue> arguments, Arguments(forward, std::move(inputs), builder));
  auto graph = forward.graph()->copy();
  Evaluator evaluator(module, builder);
  ASSIGN_OR_RETURN(c10::IValue result, evaluator.Run(*graph, arguments));
  RETURN_IF_ERROR(builder.AddOutput(result));
  return builder.Finish();
}

}  // namespace

// Torch throws; nothing of that leaves this file.
absl::StatusOr<AtenProgram> ImportTorchScript(const TorchScriptSource& source) {
  try {
    return Import(source);
  } catch (const c10::Error& e) {
    return Invalid("malformed_torch_script", e.what_without_backtrace());
  } catch (const std::exception& e) {
    return Invalid("malformed_torch_script", e.what());
  }
}

}  // namespace preheat::capture
