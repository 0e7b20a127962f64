#include "compiler/reference/aten_call.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "compiler/reference/tensors.h"
#include "compiler/reference/to_ivalue.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::reference {
namespace {

using capture::Argument;
using capture::NamedArgument;
using capture::ValueRef;

// "aten.add.Tensor" is aten::add, overload Tensor; the overload "default" has no name.
std::optional<c10::OperatorHandle> FindOperator(const std::string& op) {
  const size_t first = op.find('.'), last = op.rfind('.');
  if (first == std::string::npos || last == first) return std::nullopt;
  std::string overload = op.substr(last + 1);
  if (overload == "default") overload.clear();
  const std::string name = absl::StrCat(op.substr(0, first), "::", op.substr(first + 1, last - first - 1));
  return c10::Dispatcher::singleton().findSchema({name, overload});
}

absl::Status Malformed(const std::string& op, const std::string& what) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "malformed_program", .message = absl::StrCat(op, ": ", what)});
}

bool IsFixed(const Argument& a) {
  if (auto* e = std::get_if<ir::Expr>(&a)) return e->is_constant();
  if (auto* list = std::get_if<std::vector<ir::Expr>>(&a)) {
    return std::all_of(list->begin(), list->end(), [](const ir::Expr& e) { return e.is_constant(); });
  }
  return !std::holds_alternative<ValueRef>(a) && !std::holds_alternative<std::vector<std::optional<ValueRef>>>(a);
}

bool IsDType(const c10::Argument& formal) {
  c10::TypePtr type = formal.real_type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind() == c10::TypeKind::ScalarTypeType;
}

bool TakesTensor(const c10::FunctionSchema& schema) {
  for (const c10::Argument& formal : schema.arguments()) {
    if (formal.type()->str().find("Tensor") != std::string::npos) return true;
  }
  return false;
}

ir::DType WidenedDType(ir::DType dtype) { return *FromTorch(Widened(ToTorch(dtype))); }

// Arguments as float64 mode wants them, and the dtype that a creation operator was not given: eager would take
// torch's default dtype, a setting of the process that made the graph.
Argument Adjusted(const c10::FunctionSchema& schema, const c10::Argument& formal, const Argument* given,
                  absl::Span<const ir::DType> results, bool float64) {
  Argument argument = given != nullptr ? *given : Argument(capture::None{});
  if (IsDType(formal) && std::holds_alternative<capture::None>(argument) && !TakesTensor(schema) &&
      results.size() == 1) {
    argument = results[0];
  }
  if (!float64) return argument;
  if (auto* dtype = std::get_if<ir::DType>(&argument)) argument = WidenedDType(*dtype);
  if (formal.name() == "half_to_float") argument = false;
  return argument;
}

void Flatten(const c10::IValue& value, std::vector<c10::IValue>& out) {
  if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) out.emplace_back(t);
  } else if (value.isTensor() && !value.toTensor().defined()) {
    out.emplace_back();
  } else {
    out.push_back(value);
  }
}

absl::Status Failed(const char* what) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "reference_failed", .message = what});
}

}  // namespace

absl::StatusOr<AtenCall> AtenCall::Make(const std::string& op, absl::Span<const NamedArgument> arguments,
                                        absl::Span<const ir::DType> results, bool float64) {
  std::optional<c10::OperatorHandle> handle = FindOperator(op);
  if (!handle) {
    return MakeError(absl::StatusCode::kUnimplemented,
                     {.kind = "unknown_operator", .message = absl::StrCat("this torch has no operator ", op)});
  }
  if (float64 && op == "aten.view.dtype") {
    return MakeError(absl::StatusCode::kUnimplemented,
                     {.kind = "no_float64_form", .message = absl::StrCat(op, " reads bits, which float64 changes")});
  }
  AtenCall call(*handle);
  const c10::FunctionSchema& schema = call.handle_.schema();
  for (const NamedArgument& a : arguments) {
    if (!schema.argumentIndexWithName(a.name)) return Malformed(op, absl::StrCat("no argument is called ", a.name));
  }
  for (const c10::Argument& formal : schema.arguments()) {
    auto found = std::find_if(arguments.begin(), arguments.end(),
                              [&](const NamedArgument& a) { return a.name == formal.name(); });
    const bool given = found != arguments.end();
    Slot slot{&formal, Adjusted(schema, formal, given ? &found->value : nullptr, results, float64), false, {}};
    const bool decided = given || !std::holds_alternative<capture::None>(slot.given);
    if (!decided) {
      if (!formal.default_value()) return Malformed(op, absl::StrCat("argument ", formal.name(), " is missing"));
      slot.value = *formal.default_value();
      slot.fixed = true;
    } else if (IsFixed(slot.given)) {
      try {
        slot.value = ToIValue(slot.given, formal, CallScope());
      } catch (const std::exception& e) {
        return Malformed(op, absl::StrCat("argument ", formal.name(), ": ", e.what()));
      }
      slot.fixed = true;
    }
    call.slots_.push_back(std::move(slot));
  }
  return call;
}

absl::StatusOr<std::vector<c10::IValue>> AtenCall::Run(const CallScope& scope) const {
  try {
    torch::jit::Stack stack;
    stack.reserve(slots_.size());
    for (const Slot& slot : slots_)
      stack.push_back(slot.fixed ? slot.value : ToIValue(slot.given, *slot.formal, scope));
    handle_.callBoxed(stack);
    std::vector<c10::IValue> results;
    for (const c10::IValue& value : stack) Flatten(value, results);
    return results;
  } catch (const c10::Error& e) {
    return Failed(e.what_without_backtrace());
  } catch (const std::exception& e) {
    return Failed(e.what());
  }
}

std::vector<int> AtenCall::Operands() const {
  std::vector<int> ids;
  for (const Slot& slot : slots_) {
    if (auto* ref = std::get_if<ValueRef>(&slot.given)) ids.push_back(ref->id);
    if (auto* refs = std::get_if<std::vector<std::optional<ValueRef>>>(&slot.given)) {
      for (const auto& r : *refs) {
        if (r) ids.push_back(r->id);
      }
    }
  }
  return ids;
}

}  // namespace preheat::reference
