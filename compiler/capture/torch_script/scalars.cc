#include "compiler/capture/torch_script/scalars.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/capture/torch_script/evaluator.h"
#include "compiler/capture/torch_script/places.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {

using c10::IValue;

namespace {

const std::set<std::string>& NumberReaders() {
  static const auto* names =
      new std::set<std::string>{"aten::item",        "aten::Int",           "aten::Float",      "aten::Bool",
                                "aten::IntImplicit", "aten::FloatImplicit", "aten::is_nonzero", "aten::ScalarImplicit"};
  return *names;
}

// The dtype of the number that an operator makes of a tensor or number.
c10::ScalarType NumberType(const std::string& name, c10::ScalarType from) {
  if (name == "aten::Bool" || name == "aten::is_nonzero") return at::kBool;
  if (name == "aten::Int" || name == "aten::IntImplicit") return at::kLong;
  if (name == "aten::Float" || name == "aten::FloatImplicit") return at::kDouble;
  return from == at::kBool ? at::kBool : c10::isFloatingType(from) ? at::kDouble : at::kLong;
}

struct TensorForm {
  const char* name;
  const char* overload;
};

// What computes on tensors what these compute on two numbers.
const TensorForm* BinaryForm(const std::string& name) {
  static const auto* forms = new std::map<std::string, TensorForm>{{"aten::add", {"aten::add", "Tensor"}},
                                                                   {"aten::sub", {"aten::sub", "Tensor"}},
                                                                   {"aten::mul", {"aten::mul", "Tensor"}},
                                                                   {"aten::div", {"aten::div", "Tensor"}},
                                                                   {"aten::gt", {"aten::gt", "Tensor"}},
                                                                   {"aten::lt", {"aten::lt", "Tensor"}},
                                                                   {"aten::ge", {"aten::ge", "Tensor"}},
                                                                   {"aten::le", {"aten::le", "Tensor"}},
                                                                   {"aten::eq", {"aten::eq", "Tensor"}},
                                                                   {"aten::ne", {"aten::ne", "Tensor"}},
                                                                   {"aten::__and__", {"aten::bitwise_and", "Tensor"}},
                                                                   {"aten::__or__", {"aten::bitwise_or", "Tensor"}}};
  auto found = forms->find(name);
  return found != forms->end() ? &found->second : nullptr;
}

at::Tensor OnMeta(const at::Tensor& tensor) {
  if (tensor.is_meta()) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

}  // namespace

bool ReadsNumber(const std::string& name) { return NumberReaders().count(name) != 0; }

bool ReadsContents(const std::string& name) {
  static const auto* names =
      new std::set<std::string>{"aten::equal",    "aten::allclose",   "aten::_local_scalar_dense", "aten::nonzero",
                                "aten::_unique2", "aten::unique_dim", "aten::masked_select",       "aten::tolist"};
  return names->count(name) != 0 || ReadsNumber(name);
}

bool HasDataNumber(const c10::FunctionSchema& schema, const std::vector<IValue>& arguments) {
  for (size_t i = 0; i < arguments.size() && i < schema.arguments().size(); ++i) {
    if (arguments[i].isTensor() && arguments[i].toTensor().defined() && IsNumberType(schema.arguments()[i].type()))
      return true;
  }
  return false;
}

bool IsNumber(const IValue& value) { return value.isBool() || value.isInt() || value.isDouble(); }

bool IsNumberType(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::NumberType: return true;
    case c10::TypeKind::OptionalType: return IsNumberType(type->expectRef<c10::OptionalType>().getElementType());
    default: return false;
  }
}

at::Tensor ToTensor(const IValue& number) {
  if (number.isTensor()) return number.toTensor();
  if (number.isBool()) return at::scalar_tensor(number.toBool(), at::kBool);
  if (number.isInt()) return at::scalar_tensor(number.toInt(), at::kLong);
  return at::scalar_tensor(number.toDouble(), at::kDouble);
}

absl::StatusOr<at::Tensor> Evaluator::Emit(Node* node, const char* name, const char* overload,
                                           std::vector<IValue> arguments) {
  const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const auto& formals = op.schema().arguments();
  for (size_t i = arguments.size(); i < formals.size(); ++i) {
    arguments.push_back(formals[i].default_value().value_or(IValue()));
  }
  std::vector<IValue> stack = arguments;
  for (size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].isTensor()) stack[i] = OnMeta(stack[i].toTensor());
    if (formals[i].name() == "device") stack[i] = c10::Device(at::kMeta);
  }
  op.callBoxed(stack);
  RETURN_IF_ERROR(builder_->AddCall(op.schema(), arguments, stack, PlaceOf(node)));
  return stack[0].toTensor();
}

absl::StatusOr<at::Tensor> Evaluator::EmitCast(Node* node, const at::Tensor& tensor, c10::ScalarType dtype) {
  if (tensor.scalar_type() == dtype) return tensor;
  if (dtype == at::kBool) return Emit(node, "aten::ne", "Scalar", {tensor, int64_t{0}});
  return Emit(node, "aten::_to_copy", "", {tensor, static_cast<int64_t>(dtype)});
}

absl::Status Evaluator::ReadContents(Node* node, const std::string& name, at::Tensor tensor) {
  if (tensor.numel() != 1) return DataDependent(node, name);
  while (tensor.dim() != 0) {
    ASSIGN_OR_RETURN(tensor, Emit(node, "aten::select", "int", {tensor, int64_t{0}, int64_t{0}}));
  }
  ASSIGN_OR_RETURN(tensor, EmitCast(node, tensor, NumberType(name, tensor.scalar_type())));
  Set(node->output(), tensor);
  return absl::OkStatus();
}

absl::Status Evaluator::CallOnNumbers(Node* node, const std::string& name, std::vector<IValue> arguments) {
  const bool plain =
      std::all_of(arguments.begin(), arguments.end(), [](const IValue& v) { return v.isTensor() || IsNumber(v); });
  if (!plain || arguments.empty()) return DataDependent(node, name);
  at::Tensor a = ToTensor(arguments[0]), result;
  if (const TensorForm* form = BinaryForm(name); form != nullptr && arguments.size() >= 2) {
    at::Tensor b = ToTensor(arguments[1]);
    const auto& formals = node->schema().arguments();
    const bool numbers = IsNumberType(formals[0].type());
    if (arguments.size() > 2 && !(arguments[2].isInt() && arguments[2].toInt() == 1)) return DataDependent(node, name);
    if (numbers && name == "aten::div") {  // true division of f64, as Python's
      ASSIGN_OR_RETURN(a, EmitCast(node, a, at::kDouble));
    } else if (!numbers && a.dim() == 0 && c10::isFloatingType(a.scalar_type())) {
      ASSIGN_OR_RETURN(b, EmitCast(node, b, a.scalar_type()));  // a number leaves a tensor's dtype alone
    }
    ASSIGN_OR_RETURN(result, Emit(node, form->name, form->overload, {a, b}));
  } else if (name == "aten::neg" && arguments.size() == 1) {
    ASSIGN_OR_RETURN(result, Emit(node, "aten::neg", "", {a}));
  } else if (name == "aten::__not__" && arguments.size() == 1) {
    ASSIGN_OR_RETURN(result, Emit(node, "aten::bitwise_not", "", {a}));
  } else if (name == "prim::NumToTensor") {
    result = a;
  } else if (ReadsNumber(name) && arguments.size() == 1) {
    ASSIGN_OR_RETURN(result, EmitCast(node, a, NumberType(name, a.scalar_type())));
  } else {
    return DataDependent(node, name);
  }
  Set(node->output(), result);
  return absl::OkStatus();
}

}  // namespace preheat::capture
