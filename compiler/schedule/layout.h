#ifndef PREHEAT_COMPILER_SCHEDULE_LAYOUT_H_
#define PREHEAT_COMPILER_SCHEDULE_LAYOUT_H_

#include <map>
#include <vector>

#include "compiler/ir/graph.h"

namespace preheat::schedule {

// Where the values of a graph lie: inputs as their callers pass them, values that are outputs as the boundary
// demands, products that are only read permuted as their reader wants them, convolutions that are read with channels
// last so, results of extern calls as torch makes them, everything else dense and row-major.
class Layouts {
 public:
  explicit Layouts(const ir::Graph& graph);

  // Strides in elements of a value's memory.
  std::vector<ir::Expr> StridesOf(ir::Value value) const;

  // For each output: the value whose memory the caller's tensor can be, so that nothing is copied; null where the
  // output is copied from another value's memory at the end (inputs passed through, repeated outputs, mutated inputs).
  // A dense output that is a reshape of a value is that value's memory.
  const std::vector<ir::Value>& direct_outputs() const { return direct_; }

 private:
  void PermuteProducts(const ir::Graph& graph);
  void StoreChannelsLast(const ir::Graph& graph);
  void StoreAsTorchDoes(const ir::Graph& graph);

  std::map<ir::Value, std::vector<ir::Expr>> strides_;
  std::vector<ir::Value> direct_;
};

}  // namespace preheat::schedule

#endif  // PREHEAT_COMPILER_SCHEDULE_LAYOUT_H_
