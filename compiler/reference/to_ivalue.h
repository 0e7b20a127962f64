#ifndef PREHEAT_COMPILER_REFERENCE_TO_IVALUE_H_
#define PREHEAT_COMPILER_REFERENCE_TO_IVALUE_H_

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "compiler/capture/aten_program.h"
#include "compiler/reference/aten_call.h"

namespace preheat::reference {

// An argument of the wire dialect as torch's dispatcher takes it for that formal parameter: numbers where the schema
// wants tensors, one integer where it wants a list of fixed length, are as Python's calls allow. Throws c10::Error
// when they do not fit: call it where torch's errors are caught.
c10::IValue ToIValue(const capture::Argument& argument, const c10::Argument& formal, const CallScope& scope);

}  // namespace preheat::reference

#endif  // PREHEAT_COMPILER_REFERENCE_TO_IVALUE_H_
