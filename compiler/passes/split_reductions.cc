#include "compiler/passes/split_reductions.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/passes/reduce_in_steps.h"
#include "compiler/rewrite/replace_where.h"

namespace preheat::passes {
namespace {

using ir::Builder;
using ir::Expr;
using ir::Op;
using ir::Value;

// Bounds of the first part of a split: enough results to share out, long enough rows to be worth a loop.
constexpr int64_t kMinParts = 16, kMaxParts = 1024, kMinRow = 256;

struct Split {
  int64_t dim;    // reduced second; the dimensions reduced together with it come first
  int64_t parts;  // of that dimension; its whole size when another one is reduced first
};

// Constant sizes of all dimensions, or nothing.
std::optional<std::vector<int64_t>> Sizes(const Value& v) {
  std::vector<int64_t> sizes;
  for (const Expr& size : v.shape()) {
    if (!size.constant()) return std::nullopt;
    sizes.push_back(*size.constant());
  }
  return sizes;
}

// The largest divisor of `size` that leaves rows of kMinRow.
std::optional<int64_t> Divisor(int64_t size) {
  for (int64_t parts = std::min(kMaxParts, size / kMinRow); parts >= kMinParts; --parts) {
    if (size % parts == 0) return parts;
  }
  return std::nullopt;
}

std::optional<Split> ChooseSplit(const ir::Node& node) {
  if (node.op() < Op::kReduceSum || node.op() > Op::kReduceAll) return std::nullopt;
  std::optional<std::vector<int64_t>> sizes = Sizes(node.operand(0));
  if (!sizes) return std::nullopt;
  const std::vector<int64_t>& dims = node.Ints("dims");
  int64_t inputs = 1, results = 1;
  for (size_t d = 0; d < sizes->size(); ++d) {
    bool reduced = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    (reduced ? inputs : results) *= (*sizes)[d];
  }
  if (results >= kFewResults || results == 0 || inputs < kManyInputs) return std::nullopt;
  for (int64_t d : dims) {  // a whole outer dimension is the cheapest part
    int64_t size = (*sizes)[d];
    if (size >= kMinParts && size <= kMaxParts && inputs / size >= kMinRow) return Split{d, size};
  }
  int64_t longest =
      *std::max_element(dims.begin(), dims.end(), [&](int64_t a, int64_t b) { return (*sizes)[a] < (*sizes)[b]; });
  std::optional<int64_t> parts = Divisor((*sizes)[longest]);
  if (!parts) return std::nullopt;
  return Split{longest, *parts};
}

// Reduces everything but `parts`, then `parts`.
Value ReduceTwice(Builder& b, const ir::Node& node, Value x, Split split) {
  std::vector<int64_t> first;
  const bool whole = *x.shape()[split.dim].constant() == split.parts;
  if (!whole) x = SplitDim(b, x, split.dim, split.parts);
  for (int64_t d : node.Ints("dims")) {
    if (d != split.dim) first.push_back(whole || d < split.dim ? d : d + 1);
    if (d == split.dim && !whole) first.push_back(d + 1);
  }
  return ReduceInSteps(b, node.op(), x, first, {split.dim});
}

}  // namespace

absl::StatusOr<ir::Graph> SplitReductions(const ir::Graph& graph) {
  return rewrite::ReplaceWhere(graph, [](const ir::Node& node, rewrite::Rebuild& r) {
    const std::optional<Split> split = ChooseSplit(node);
    return split ? ReduceTwice(r.builder(), node, r.Map(node.operand(0)), *split) : Value();
  });
}

}  // namespace preheat::passes
