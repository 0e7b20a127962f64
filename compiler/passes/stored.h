#ifndef PREHEAT_COMPILER_PASSES_STORED_H_
#define PREHEAT_COMPILER_PASSES_STORED_H_

#include "compiler/ir/builder.h"

namespace preheat::passes {

// The value in memory of its own, whatever it is made of: a pad by nothing, which scheduling takes for that. Simplify
// would take it for nothing.
ir::Value Stored(ir::Builder& b, ir::Value v);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_STORED_H_
