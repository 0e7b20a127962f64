#ifndef PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_SCALARS_H_
#define PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_SCALARS_H_

#include <ATen/ATen.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace preheat::capture {

// Numbers that only the contents of a tensor tell: a tensor without memory stands where TorchScript has a number.

// Operators that read what a tensor holds: those that give one number of it, and all.
bool ReadsNumber(const std::string& name);
bool ReadsContents(const std::string& name);

// Whether a tensor stands where the schema wants a number.
bool HasDataNumber(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments);

bool IsNumber(const c10::IValue& value);         // a bool, an int or a float
bool IsNumberType(const c10::TypePtr& type);     // of these, perhaps optional
at::Tensor ToTensor(const c10::IValue& number);  // with memory: bool, i64 or f64; a tensor as it is

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_TORCH_SCRIPT_SCALARS_H_
