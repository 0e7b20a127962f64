#include "compiler/schedule/step_memory.h"

#include <algorithm>

namespace preheat::schedule {

using ir::Value;

StepMemory::StepMemory(const ir::Graph& graph, const Layouts& layouts, const Partition& partition)
    : layouts_(layouts), sizes_(graph.SymbolRanges()), steps_(partition.steps), readers_(graph), bytes_(graph, 0) {
  for (Value value : partition.stored) known_ = known_ && SetBytes(value);
  for (const ir::GraphOutput& output : graph.outputs()) bytes_[output.value] = 0;
  for (Value value : layouts.direct_outputs()) {
    if (value) bytes_[value] = 0;
  }
  for (size_t s = 0; s < steps_.size(); ++s) {
    known_ = known_ && !(steps_[s].call && steps_[s].call->op() == ir::Op::kExtern);
    inputs_.push_back(MemoryRead(steps_[s]));
    for (Value input : inputs_.back()) readers_[input].push_back(static_cast<int>(s));
  }
}

std::set<Value> StepMemory::MemoryRead(const Step& step) const {
  if (step.region) return {step.region->inputs.begin(), step.region->inputs.end()};
  std::set<Value> inputs;
  for (Value operand : step.call->operands()) inputs.insert(MemoryOf(operand, layouts_, sizes_));
  return inputs;
}

std::vector<Value> StepMemory::OutputsOf(size_t step) const {
  if (steps_[step].region) return steps_[step].region->outputs;
  std::vector<Value> outputs;
  const ir::Node& call = *steps_[step].call;
  for (size_t i = 0; i < call.results().size(); ++i) outputs.push_back(call.result(static_cast<int>(i)));
  return outputs;
}

bool StepMemory::SetBytes(Value value) {
  if (value.node->op() == ir::Op::kInput || value.node->op() == ir::Op::kConstant) return true;
  auto elements = value.type().NumElements().constant();
  if (!elements) return false;
  bytes_[value] = *elements * ir::DTypeSize(value.dtype());
  return true;
}

std::vector<int64_t> StepMemory::Live(const std::vector<int>& order) const {
  std::vector<size_t> position(order.size());
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  std::vector<int64_t> ending(order.size(), 0), lives;
  int64_t live = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    for (Value output : OutputsOf(order[i])) {
      size_t last = i;
      for (int reader : readers_[output]) last = std::max(last, position[reader]);
      live += bytes_[output];
      ending[last] += bytes_[output];
    }
    lives.push_back(live);
    live -= ending[i];
  }
  return lives;
}

}  // namespace preheat::schedule
