#ifndef PREHEAT_COMPILER_SCHEDULE_STEP_MEMORY_H_
#define PREHEAT_COMPILER_SCHEDULE_STEP_MEMORY_H_

#include <cstdint>
#include <set>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/schedule/fuse.h"
#include "compiler/schedule/layout.h"

namespace preheat::schedule {

// What a partition's steps read and write in memory, and how much of it lives when. What is given must outlive this.
class StepMemory {
 public:
  StepMemory(const ir::Graph& graph, const Layouts& layouts, const Partition& partition);

  // False when some value's size is not known, or torch runs some of the steps, whose order counts.
  bool known() const { return known_; }

  const std::set<ir::Value>& InputsOf(size_t step) const { return inputs_[step]; }
  std::vector<ir::Value> OutputsOf(size_t step) const;
  const std::vector<int>& ReadersOf(ir::Value value) const { return readers_[value]; }  // steps
  // Inputs, constants and outputs have memory of their own all along: 0.
  int64_t BytesOf(ir::Value value) const { return bytes_[value]; }

  // Bytes that live during each step, with the steps in that order.
  std::vector<int64_t> Live(const std::vector<int>& order) const;

 private:
  std::set<ir::Value> MemoryRead(const Step& step) const;
  bool SetBytes(ir::Value value);

  const Layouts& layouts_;
  const ir::Ranges sizes_;
  const std::vector<Step>& steps_;
  std::vector<std::set<ir::Value>> inputs_;  // of each step
  ir::ValueMap<std::vector<int>> readers_;   // steps
  ir::ValueMap<int64_t> bytes_;
  bool known_ = true;
};

}  // namespace preheat::schedule

#endif  // PREHEAT_COMPILER_SCHEDULE_STEP_MEMORY_H_
