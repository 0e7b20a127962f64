#ifndef PREHEAT_COMPILER_SCHEDULE_FUSE_H_
#define PREHEAT_COMPILER_SCHEDULE_FUSE_H_

#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/schedule/layout.h"

namespace preheat::schedule {

// How the loops of a region lie.
//   kPointwise  every element of the outputs on its own
//   kRow        `outer` independent rows; within a row, loops that reduce and loops that store follow each other
//   kColumn     reductions whose kept dimension is the contiguous one: tiles of columns, rows within
//   kNode       one node that is no loop nest over expressions: scan, sort, scatter, put_rows
enum class RegionKind { kPointwise, kRow, kColumn, kNode };

// What one kernel computes: everything between `inputs` and `outputs`, recomputed where that is cheaper than
// storing.
struct Region {
  RegionKind kind = RegionKind::kPointwise;
  std::vector<ir::Value> outputs;  // stored, in graph order
  std::vector<ir::Value> inputs;   // read from memory, in graph order
  ir::Expr outer = 1;              // kRow, kColumn: number of rows or columns
  int64_t block = 0;               // kRow, not 0: also sums of the columns of blocks of so many rows (IsBlockSum)
};

// One step of the program, in an order that respects data. Exactly one of the two is set.
struct Step {
  std::optional<Region> region;
  const ir::Node* call = nullptr;  // a library, extern or control flow node
};

struct Partition {
  std::vector<Step> steps;
  // Values that get memory: outputs of regions and calls, and inputs and constants. Everything else is inlined.
  std::vector<ir::Value> stored;
};

// Groups the nodes of a graph into regions and calls.
//
// First, values that must or had better be in memory become roots: graph outputs, what calls read and write,
// reductions, costly values with several uses, operands of views that repeat elements. Then a root's region merges into
// the region that consumes it wherever the consumer computes each element once (the same element order, or one a row),
// as in softmax, normalizations and their backward operators; siblings over the same rows merge next, and last sums
// over blocks of rows into what goes through the same rows. Stores that
// nobody reads any more are dropped. Near linear in the number of nodes.
//
// With `merge` off every root is a region of its own: slower, but free of every rule above. `cpu`: the target's emitter
// can have regions with a block, and its loops leave padding out where they read windows; others read it from memory.
// Roots in `apart` are not merged into regions that read them.
absl::StatusOr<Partition> Fuse(const ir::Graph& graph, const Layouts& layouts, bool merge = true, bool cpu = true,
                               const std::set<ir::Value>& apart = {});

// The value whose memory an operand of a call or node kernel is read from: the base of the views on it where they
// are affine in memory, the operand itself otherwise.
ir::Value MemoryOf(ir::Value operand, const Layouts& layouts, const ir::Ranges& sizes);

// Views of memory are followed here: the value whose memory a call's operand reads (Operand of plan.fbs).
bool IsCall(ir::Op op);        // library, extern and control flow
bool IsNodeKernel(ir::Op op);  // scan, sort, scatter, put_rows

// A sum of [blocks, rows of a block, columns] over the rows of a block, as split_column_sums makes it.
bool IsBlockSum(const ir::Node& node);

}  // namespace preheat::schedule

#endif  // PREHEAT_COMPILER_SCHEDULE_FUSE_H_
