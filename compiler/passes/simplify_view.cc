#include <algorithm>

#include "compiler/passes/simplify.h"

namespace preheat::passes {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules
using ir::Builder;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

bool SameType(const Match& m) { return x(m).type() == m.root.type(); }
Value ReshapeX(const Match& m, Builder& b) { return b.Reshape(x(m), m.root.shape()); }
Value BroadcastX(const Match& m, Builder& b) { return b.BroadcastTo(x(m), m.root.shape()); }

Value FillOfRoot(const Match& m, Builder& b) {
  return b.Fill(c(m).node->ScalarAttr("value"), m.root.dtype(), m.root.shape());
}

// permute(permute(x)): dimension i of the root is dimension inner[outer[i]] of x.
Value PermuteTwice(const Match& m, Builder& b) {
  std::vector<int64_t> dims;
  for (int64_t d : m.nodes[0]->Ints("dims")) dims.push_back(m.nodes[1]->Ints("dims")[d]);
  return b.Permute(x(m), std::move(dims));
}

Value BroadcastPermuted(const Match& m, Builder& b) {
  return b.BroadcastTo(b.Permute(x(m), m.nodes[0]->Ints("dims")), m.root.shape());
}

// Only dimensions of one element change their place: the elements stay in order.
bool MovesOnlyOnes(const Match& m) {
  int64_t last = -1;
  for (int64_t d : m.root.node->Ints("dims")) {
    if (x(m).shape()[d] == Expr(1)) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

// slice(slice(x)): element i of the root is element start1 + step1 * (start2 + step2 * i) of x. An empty slice at
// the end of a stepped one may begin past x's end, which is no slice; it stays.
Value SliceTwice(const Match& m, Builder& b) {
  const Node &outer = *m.nodes[0], &inner = *m.nodes[1];
  std::vector<Expr> starts;
  std::vector<int64_t> steps;
  for (size_t d = 0; d < m.root.shape().size(); ++d) {
    int64_t first = inner.Ints("steps")[d], second = outer.Ints("steps")[d];
    if (first * second > INT32_MAX || first > INT32_MAX || second > INT32_MAX) return {};
    Expr start = inner.Exprs("starts")[d] + outer.Exprs("starts")[d] * Expr(first);
    if (auto beyond = (start - x(m).shape()[d]).constant(); beyond && *beyond > 0) return {};
    starts.push_back(std::move(start));
    steps.push_back(first * second);
  }
  return b.Emit(Op::kSlice, {x(m)}, {{"starts", starts}, {"sizes", m.root.shape()}, {"steps", steps}});
}

bool FlipsNothing(const Match& m) {
  const std::vector<int64_t>& dims = m.root.node->Ints("dims");
  return std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return x(m).shape()[d] == Expr(1); });
}

bool SameFlips(const Match& m) {
  std::vector<int64_t> a = m.nodes[0]->Ints("dims"), b = m.nodes[1]->Ints("dims");
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

bool AnyConcat(Value value, Match&) { return value.node->op() == Op::kConcat; }

// slice(concat(...)) that begins where a part does and ends where one does: these parts. Without this, what reads the
// slice would take every part for something it reads.
Value SliceOfParts(const Match& m, Builder& b) {
  const Node &slice = *m.root.node, &concat = *c(m).node;
  const int64_t dim = concat.Int("dim");
  std::vector<Expr> sizes = c(m).shape();
  sizes[dim] = slice.Exprs("sizes")[dim];
  if (slice.Ints("steps")[dim] != 1 || sizes != m.root.shape() || sizes[dim] == Expr(0)) return {};
  const Expr first = slice.Exprs("starts")[dim], last = first + sizes[dim];
  Expr at;
  std::vector<Value> parts;
  for (const Value& part : concat.operands()) {
    if (at == first || !parts.empty()) parts.push_back(part);
    at = at + part.shape()[dim];
    if (at == last && !parts.empty()) return parts.size() == 1 ? parts[0] : b.Concat(parts, dim);
  }
  return {};
}

// Parts without elements fall away.
Value ConcatOfSome(const Match& m, Builder& b) {
  int64_t dim = m.root.node->Int("dim");
  std::vector<Value> parts;
  for (const Value& part : m.root.node->operands()) {
    if (part.shape()[dim] != Expr(0)) parts.push_back(part);
  }
  if (parts.empty() || parts.size() == m.root.node->operands().size()) return {};
  return b.Concat(parts, dim);
}

Value OnlyPart(const Match& m, Builder&) {
  return m.root.node->operands().size() == 1 ? m.root.node->operand(0) : Value{};
}

}  // namespace

RuleSet ViewRules() {
  return {
      {Op::kReshape,
       {
           {"reshape to the same shape = x", Is(Op::kReshape, {x}), x, SameType},
           {"reshape of reshape = reshape", Is(Op::kReshape, {Is(Op::kReshape, {x})}), ReshapeX},
           {"reshape of fill = fill", Is(Op::kReshape, {AnyFill(c)}), FillOfRoot},
       }},
      {Op::kPermute,
       {
           {"permute that moves only ones = reshape", Is(Op::kPermute, {x}), ReshapeX, MovesOnlyOnes},
           {"permute of permute = permute", Is(Op::kPermute, {Is(Op::kPermute, {x})}), PermuteTwice},
           {"permute of broadcast = broadcast of permute", Is(Op::kPermute, {Is(Op::kBroadcast, {x})}),
            BroadcastPermuted},
           {"permute of fill = fill", Is(Op::kPermute, {AnyFill(c)}), FillOfRoot},
       }},
      {Op::kBroadcast,
       {
           {"broadcast to the same shape = x", Is(Op::kBroadcast, {x}), x, SameType},
           {"broadcast of broadcast = broadcast", Is(Op::kBroadcast, {Is(Op::kBroadcast, {x})}), BroadcastX},
           {"broadcast of fill = fill", Is(Op::kBroadcast, {AnyFill(c)}), FillOfRoot},
       }},
      {Op::kSlice,
       {
           {"slice of everything = x", Is(Op::kSlice, {x}), x, SameType},
           {"slice of slice = slice", Is(Op::kSlice, {Is(Op::kSlice, {x})}), SliceTwice},
           {"slice of fill = fill", Is(Op::kSlice, {AnyFill(c)}), FillOfRoot},
           {"slice of concat = whole parts", Is(Op::kSlice, {As(c, AnyConcat)}), SliceOfParts},
       }},
      {Op::kPad, {{"pad by nothing = x", Is(Op::kPad, {x}), x, SameType}}},
      {Op::kFlip,
       {
           {"flip of ones = x", Is(Op::kFlip, {x}), x, FlipsNothing},
           {"flip of the same flip = x", Is(Op::kFlip, {Is(Op::kFlip, {x})}), x, SameFlips},
           {"flip of fill = fill", Is(Op::kFlip, {AnyFill(c)}), FillOfRoot},
       }},
      {Op::kWindow, {{"window of fill = fill", Is(Op::kWindow, {AnyFill(c)}), FillOfRoot}}},
      {Op::kConcat,
       {
           {"concat of one = x", AnyConcat, OnlyPart},
           {"concat without empty parts", AnyConcat, ConcatOfSome},
       }},
  };
}

}  // namespace preheat::passes
