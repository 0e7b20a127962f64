#include "compiler/schedule/layout.h"

#include <algorithm>
#include <set>

namespace preheat::schedule {

using ir::GraphOutput;
using ir::Op;
using ir::Value;

namespace {

bool InMemory(Value value) { return value.node->op() == Op::kInput || value.node->op() == Op::kConstant; }

Value BelowReshapes(const GraphOutput& output) {
  Value value = output.value;
  if (output.strides != ir::RowMajorStrides(value.shape())) return value;
  while (value.node->op() == Op::kReshape) value = value.node->operand(0);
  return InMemory(value) ? output.value : value;
}

bool IsMatMul(const ir::Node& node) {
  return node.op() == Op::kMatMul || (node.op() == Op::kFused && node.String("base") != "conv");
}

bool IsConv(const ir::Node& node) {
  return node.op() == Op::kConv || (node.op() == Op::kFused && node.String("base") == "conv");
}

// Dense, with these dimensions from the outermost to the innermost.
std::vector<ir::Expr> StridesInOrder(const std::vector<ir::Expr>& shape, const std::vector<int64_t>& order) {
  std::vector<ir::Expr> strides(shape.size());
  ir::Expr elements(1);
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    strides[static_cast<size_t>(*dim)] = elements;
    elements = elements * shape[static_cast<size_t>(*dim)];
  }
  return strides;
}

// The only node that reads each node's results; null for several readers and for outputs.
std::vector<const ir::Node*> OnlyReaders(const ir::Graph& graph) {
  std::vector<const ir::Node*> readers(graph.nodes().size(), nullptr);
  std::vector<int> count(graph.nodes().size(), 0);
  for (const ir::Node& node : graph.nodes()) {
    for (Value operand : node.operands()) {
      readers[operand.node->id()] = &node;
      ++count[operand.node->id()];
    }
  }
  for (const GraphOutput& output : graph.outputs()) count[output.value.node->id()] = 2;
  for (size_t i = 0; i < count.size(); ++i) {
    if (count[i] != 1) readers[i] = nullptr;
  }
  return readers;
}

}  // namespace

// A product that is only read permuted and then reshaped (attention's heads put side by side) is written permuted, so
// that the reshape is a view. Its last dimension stays contiguous: matrix libraries want rows.
void Layouts::PermuteProducts(const ir::Graph& graph) {
  std::vector<const ir::Node*> readers = OnlyReaders(graph);
  for (const ir::Node& node : graph.nodes()) {
    if (!IsMatMul(node)) continue;
    const ir::Node* permute = readers[node.id()];
    if (!permute || permute->op() != Op::kPermute) continue;
    const std::vector<int64_t>& dims = permute->Ints("dims");
    const ir::Node* reshape = readers[permute->id()];
    if (!reshape || reshape->op() != Op::kReshape || dims.empty() ||
        dims.back() + 1 != static_cast<int64_t>(dims.size()))
      continue;
    strides_.try_emplace(node.result(), StridesInOrder(node.results()[0].shape, dims));
  }
}

// A convolution that somebody reads with channels last is stored so; its other readers go by strides as well. Of
// gradients by images only those that passes/lay_out_convolutions.h has marked, by permuting them there and back.
void Layouts::StoreChannelsLast(const ir::Graph& graph) {
  std::set<const ir::Node*> there;  // permutations that are undone at once
  for (const ir::Node& node : graph.nodes()) {
    if (node.op() == Op::kPermute && node.operand(0).node->op() == Op::kPermute) there.insert(node.operand(0).node);
  }
  for (const ir::Node& node : graph.nodes()) {
    if (node.op() != Op::kPermute) continue;
    const ir::Node& read = *node.operand(0).node;
    if (!IsConv(read) && !(read.op() == Op::kConvGradInput && there.count(&node) != 0)) continue;
    const std::vector<int64_t>& dims = node.Ints("dims");
    bool channels_last = dims.size() >= 3 && dims.back() == 1 && std::is_sorted(dims.begin(), dims.end() - 1);
    if (!channels_last) continue;
    strides_.try_emplace(node.operand(0), StridesInOrder(node.operand(0).shape(), dims));
  }
}

// Torch's results are stored as torch makes them: a copy is a plain one then, and what follows reads them as it would.
void Layouts::StoreAsTorchDoes(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op() != Op::kExtern || !node.Has("orders")) continue;
    auto order = node.Ints("orders").begin();
    for (size_t i = 0; i < node.results().size(); ++i) {
      const std::vector<ir::Expr>& shape = node.results()[i].shape;
      const auto end = order + static_cast<long>(shape.size());
      strides_.try_emplace(node.result(static_cast<int>(i)), StridesInOrder(shape, {order, end}));
      order = end;
    }
  }
}

Layouts::Layouts(const ir::Graph& graph) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    strides_[graph.input_values()[i]] = graph.inputs()[i].strides;
  }
  std::set<Value> taken;
  for (const GraphOutput& output : graph.outputs()) {
    Value value = BelowReshapes(output);
    bool direct = output.mutates < 0 && !InMemory(value) && taken.insert(value).second;
    direct_.push_back(direct ? value : Value{});
    if (direct && value == output.value) strides_[value] = output.strides;
  }
  PermuteProducts(graph);
  StoreChannelsLast(graph);
  StoreAsTorchDoes(graph);
}

std::vector<ir::Expr> Layouts::StridesOf(Value value) const {
  auto it = strides_.find(value);
  return it != strides_.end() ? it->second : ir::RowMajorStrides(value.shape());
}

}  // namespace preheat::schedule
