#ifndef PREHEAT_COMPILER_CODEGEN_IN_PLACE_H_
#define PREHEAT_COMPILER_CODEGEN_IN_PLACE_H_

#include <vector>

#include "compiler/codegen/loop_ir.h"

namespace preheat::codegen {

// The pairs of a kernel's buffers that may be the same memory. An item then reads no element that another item writes,
// and reads those that it writes itself no later than when it writes them: every load of the one is of the element that
// the store to the other writes there (in earlier stages of the item: in the same loops), and none follows the stage
// that stores. Element types are the same. Both must have the same number of elements, which is for the caller to see.
std::vector<InPlace> InPlacePairs(const Kernel& kernel);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_IN_PLACE_H_
