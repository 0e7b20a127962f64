#ifndef PREHEAT_COMPILER_CAPTURE_ADDRESS_OWNERS_H_
#define PREHEAT_COMPILER_CAPTURE_ADDRESS_OWNERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/capture/aten_program.h"

namespace preheat::capture {

// Operators that address memory by strides and so read what lies around their operand: as_strided and its kin.
bool AddressesMemory(const std::string& op);

// In torch such an operator's `storage_offset` counts from the start of the storage, and its operand may be any view of
// it. In a program it counts from the operand's first element, and the operand is the tensor that owns the memory:
// values have none, so nothing else could be addressed. Turns the first form into the second.
// `offsets`: where each value's first element lies in its storage, one a value; the program is as it was exported,
// before functionalize. Kind "unsupported_strides" where the owner is not known.
absl::Status AddressOwners(AtenProgram& program, const std::vector<ir::Expr>& offsets);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_ADDRESS_OWNERS_H_
