#ifndef PREHEAT_COMPILER_READ_BLOCK_H_
#define PREHEAT_COMPILER_READ_BLOCK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat {

// Strides of several tensors, in elements.
using StrideLists = std::vector<std::vector<ir::Expr>>;

// The graph of a block of control flow, from the text that Op::kIf and Op::kWhile have of it, with the memory that its
// surroundings give it: inputs and results lie as the strides say, and are aligned to their elements alone.
absl::StatusOr<ir::Graph> ReadBlock(const std::string& text, const StrideLists& inputs, const StrideLists& outputs);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_READ_BLOCK_H_
