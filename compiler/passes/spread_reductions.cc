#include "compiler/passes/spread_reductions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/channel_order.h"
#include "compiler/passes/reduce_in_steps.h"
#include "compiler/rewrite/replace_where.h"

namespace preheat::passes {
namespace {

using ir::Builder;
using ir::Expr;
using ir::Op;
using ir::Value;

constexpr int64_t kColumnsABlock = 128;
constexpr int64_t kLeastColumnInputs = int64_t{1} << 17;  // of the whole reduction; less is done in microseconds
constexpr int64_t kLeastRowsAPart = 32;
constexpr int64_t kLongRow = int64_t{1} << 17, kLeastElementsAPart = int64_t{1} << 14;

// What the first reduction leaves: `parts` of dimension `dim`, after `before`, whole dimensions outside of it.
struct Spread {
  std::vector<int64_t> whole;
  int64_t dim = -1;  // -1: only whole dimensions
  int64_t parts = 1;
  bool fill = false;  // the dimension is filled up to a multiple of `parts`
};

bool Reduced(const std::vector<int64_t>& dims, size_t d) {
  return std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
}

// Along which dimension a value's elements lie side by side.
class Memory {
 public:
  explicit Memory(const ir::Graph& graph) {
    for (size_t i = 0; i < graph.inputs().size(); ++i) demanded_[graph.input_values()[i]] = &graph.inputs()[i].strides;
    for (const ir::GraphOutput& output : graph.outputs()) {
      if (output.mutates < 0) demanded_.try_emplace(output.value, &output.strides);
    }
  }

  // The dimension, of more than one element; -1 without one. As far as the boundary, views and elementwise operators
  // tell (an image made of tokens has its channels there). A convolution that is read with channels last is stored so:
  // schedule/layout.h.
  int64_t InnermostDim(Value value) const {
    const ir::Node& node = *value.node;
    if (const auto strides = demanded_.find(value); strides != demanded_.end()) {
      for (int64_t d = value.type().rank() - 1; d >= 0; --d) {
        if (!IsOne(value, d) && (*strides->second)[static_cast<size_t>(d)] == Expr(1)) return d;
      }
    }
    if (node.op() == Op::kExtern && node.Has("orders")) return InnermostOfExtern(value);
    if (ir::IsPointwise(node.op())) {
      for (Value operand : node.operands()) {
        if (operand.node->op() != Op::kBroadcast && operand.node->op() != Op::kFill) return InnermostDim(operand);
      }
    }
    if (node.op() == Op::kPermute) {
      const std::vector<int64_t>& dims = node.Ints("dims");
      const bool stored = ir::IsLibrary(node.operand(0).node->op()) && dims == ToChannelsLast(value.type().rank());
      const int64_t inner = stored ? dims.back() : InnermostDim(node.operand(0));
      const auto at = std::find(dims.begin(), dims.end(), inner);
      return at != dims.end() ? at - dims.begin() : -1;
    }
    return LastDim(value);
  }

  static int64_t LastDim(Value value) {
    int64_t d = value.type().rank() - 1;
    while (d >= 0 && IsOne(value, d)) --d;
    return d;
  }

 private:
  // As torch makes it: the last dimension of the result's memory order that has more than one element.
  static int64_t InnermostOfExtern(Value value) {
    const std::vector<int64_t>& orders = value.node->Ints("orders");
    size_t begin = 0;
    for (int i = 0; i < value.index; ++i) begin += value.node->results()[static_cast<size_t>(i)].shape.size();
    for (size_t i = begin + value.shape().size(); i-- > begin;) {
      if (!IsOne(value, orders[i])) return orders[i];
    }
    return -1;
  }

  static bool IsOne(Value value, int64_t d) { return value.shape()[static_cast<size_t>(d)] == Expr(1); }

  std::map<Value, const std::vector<Expr>*> demanded_;  // strides, by who calls
};

// Parts that are wanted: 1 for a reduction that is fine as it is.
int64_t WantedParts(const Memory& memory, const ir::Node& node) {
  const std::vector<int64_t>& dims = node.Ints("dims");
  const std::vector<Expr>& shape = node.operand(0).shape();
  const int64_t inner = memory.InnermostDim(node.operand(0));
  int64_t inputs = 1, results = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    auto size = shape[d].constant();
    bool reduced = Reduced(dims, d);
    if (!size) {
      if (!reduced) return 1;
      continue;  // counts as 1: then more may be split than is needed
    }
    (reduced ? inputs : results) *= *size;
  }
  if (inputs == 0 || results == 0) return 1;
  const int64_t last = memory.LastDim(node.operand(0));
  const auto kept = [&](int64_t d) { return d >= 0 && !Reduced(dims, static_cast<size_t>(d)); };
  const bool columns = kept(last) || kept(inner);  // codegen walks along the last one even where others lie closer
  if (columns) {
    if (inputs * results < kLeastColumnInputs) return 1;
    int64_t blocks = (results + kColumnsABlock - 1) / kColumnsABlock;
    return std::min(kBusyBlocks / blocks, inputs / kLeastRowsAPart);
  }
  if (inputs < kLongRow) return 1;
  return std::min(kBusyBlocks / results, inputs / kLeastElementsAPart);
}

// The divisor of `size` that is nearest to `wanted`, from half to twice of it.
std::optional<int64_t> DivisorNear(int64_t size, int64_t wanted) {
  for (int64_t away = 0; away <= wanted; ++away) {
    if (wanted + away < size && size % (wanted + away) == 0) return wanted + away;
    int64_t below = wanted - away / 2;
    if (below > 1 && size % below == 0 && below < size) return below;
  }
  return std::nullopt;
}

// From the outermost reduced dimension inwards: whole dimensions as long as they are wanted, then parts of one.
std::optional<Spread> ChooseSpread(const Memory& memory, const ir::Node& node) {
  if (node.op() < Op::kReduceSum || node.op() > Op::kReduceAll) return std::nullopt;
  const int64_t wanted = WantedParts(memory, node);
  if (wanted < 2) return std::nullopt;
  Spread spread;
  int64_t have = 1;
  const std::vector<int64_t>& dims = node.Ints("dims");
  for (size_t i = 0; i < dims.size() && 2 * have <= wanted; ++i) {
    auto size = node.operand(0).shape()[dims[i]].constant();
    if (!size || *size == 1) continue;
    const int64_t more = wanted / have;
    if (*size <= more && i + 1 < dims.size()) {
      spread.whole.push_back(dims[i]);
      have *= *size;
      continue;
    }
    spread.dim = dims[i];
    auto divisor = DivisorNear(*size, more);
    spread.fill = !divisor.has_value();
    spread.parts = divisor.value_or(std::min(more, *size));
    if (spread.fill && (node.op() != Op::kReduceSum || spread.parts == *size)) {
      spread.dim = -1;
    } else {
      have *= spread.parts;
    }
    break;
  }
  return have > 1 ? std::optional(spread) : std::nullopt;
}

ir::AttrValue Zero(ir::DType dtype) { return ir::IsFloat(dtype) ? ir::AttrValue(0.0) : ir::AttrValue(int64_t{0}); }

Value FillUp(Builder& b, Value x, int64_t dim, int64_t size) {
  std::vector<Expr> low(x.shape().size(), Expr(0)), high = low;
  high[dim] = Expr(size) - x.shape()[dim];
  return b.Emit(Op::kPad, {x}, {{"low", low}, {"high", high}, {"value", Zero(x.dtype())}});
}

Value ReduceTwice(Builder& b, const ir::Node& node, Value x, const Spread& spread) {
  std::vector<int64_t> first, second = spread.whole;
  for (int64_t d : node.Ints("dims")) {
    if (std::find(spread.whole.begin(), spread.whole.end(), d) == spread.whole.end()) first.push_back(d);
  }
  if (spread.dim >= 0) {
    const int64_t rows = (*x.shape()[spread.dim].constant() + spread.parts - 1) / spread.parts;
    if (spread.fill) x = FillUp(b, x, spread.dim, rows * spread.parts);
    if (!x) return x;
    x = SplitDim(b, x, spread.dim, spread.parts);
    for (int64_t& d : first) d += d >= spread.dim;  // dim's own rows stand behind its parts
    second.push_back(spread.dim);
  }
  std::sort(second.begin(), second.end());
  return ReduceInSteps(b, node.op(), x, first, std::move(second));
}

}  // namespace

absl::StatusOr<ir::Graph> SpreadReductions(const ir::Graph& graph) {
  const Memory memory(graph);
  return rewrite::ReplaceWhere(graph, [&](const ir::Node& node, rewrite::Rebuild& r) {
    const std::optional<Spread> spread = ChooseSpread(memory, node);
    return spread ? ReduceTwice(r.builder(), node, r.Map(node.operand(0)), *spread) : Value();
  });
}

}  // namespace preheat::passes
