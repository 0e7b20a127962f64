#include "compiler/passes/simplify.h"

namespace preheat::passes {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules
using ir::Builder;
using ir::Op;
using ir::Value;

bool Bool(const Match& m) { return m.root.dtype() == ir::DType::kBool; }

Replacement To(Op op, Capture a, Capture other) {
  return [op, a, other](const Match& m, Builder& b) { return b.Emit(op, {a(m), other(m)}); };
}
Value Swapped(const Match& m, Builder& b) { return b.Emit(Op::kWhere, {c(m), y(m), x(m)}); }
Replacement ToFill(int64_t value) {
  return [value](const Match& m, Builder& b) { return b.Fill(value, m.root.dtype(), m.root.shape()); };
}

}  // namespace

RuleSet LogicRules() {
  return {
      {Op::kNot,
       {
           {"not not x = x", Is(Op::kNot, {Is(Op::kNot, {x})}), x},
           // Only these two: not (x < y) is no x >= y when one is NaN.
           {"not x == y = x != y", Is(Op::kNot, {Is(Op::kEq, {x, y})}), To(Op::kNe, x, y)},
           {"not x != y = x == y", Is(Op::kNot, {Is(Op::kNe, {x, y})}), To(Op::kEq, x, y)},
       }},
      {Op::kAnd,
       {
           {"x and x = x", Is(Op::kAnd, {x, x}), x},
           {"x and true = x", EitherWay(Op::kAnd, x, FillOf(1)), x, Bool},
           {"x and 0 = 0", EitherWay(Op::kAnd, x, FillOf(0)), ToFill(0)},
       }},
      {Op::kOr,
       {
           {"x or x = x", Is(Op::kOr, {x, x}), x},
           {"x or 0 = x", EitherWay(Op::kOr, x, FillOf(0)), x},
           {"x or true = true", EitherWay(Op::kOr, x, FillOf(1)), ToFill(1), Bool},
       }},
      {Op::kXor,
       {
           {"x xor 0 = x", EitherWay(Op::kXor, x, FillOf(0)), x},
           {"x xor x = 0", Is(Op::kXor, {x, x}), ToFill(0)},
       }},
      {Op::kWhere,
       {
           {"true ? x : y = x", Is(Op::kWhere, {FillOf(1), x, y}), x},
           {"false ? x : y = y", Is(Op::kWhere, {FillOf(0), x, y}), y},
           {"c ? x : x = x", Is(Op::kWhere, {c, x, x}), x},
           {"not c ? x : y = c ? y : x", Is(Op::kWhere, {Is(Op::kNot, {c}), x, y}), Swapped},
       }},
  };
}

}  // namespace preheat::passes
