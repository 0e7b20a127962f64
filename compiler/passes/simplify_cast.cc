#include "compiler/passes/simplify.h"

namespace preheat::passes {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules
using ir::Builder;
using ir::DType;
using ir::Op;
using ir::Value;

// Bits of magnitude: the integers up to 2^n that a dtype holds, all of them.
int IntegerBits(DType dtype) {
  switch (dtype) {
    case DType::kBool: return 1;
    case DType::kI8: return 7;
    case DType::kU8: return 8;
    case DType::kI16: return 15;
    case DType::kI32: return 31;
    case DType::kI64: return 63;
    case DType::kF16: return 11;
    case DType::kBF16: return 8;
    case DType::kF32: return 24;
    case DType::kF64: return 53;
    default: return 0;
  }
}

// Does `wide` hold every value of `narrow`?
bool Holds(DType wide, DType narrow) {
  if (wide == narrow || narrow == DType::kBool) return true;
  if (wide == DType::kBool) return false;
  if (ir::IsFloat(narrow)) {
    bool mixed = wide == DType::kF16 || wide == DType::kBF16;  // neither holds the other
    return ir::IsFloat(wide) && !mixed && ir::DTypeSize(wide) > ir::DTypeSize(narrow);
  }
  bool sign = narrow != DType::kU8;
  return IntegerBits(wide) >= IntegerBits(narrow) && (!sign || wide != DType::kU8);
}

// A -> B -> C is A -> C: B loses nothing, and C sees the same number. A float B on the way to an integer C that
// does not hold A would clamp where integers wrap.
bool StepIsExact(const Match& m) {
  DType from = x(m).dtype(), step = y(m).dtype(), to = m.root.dtype();
  if (!Holds(step, from)) return false;
  bool integers = ir::IsInteger(from) && ir::IsFloat(step) && ir::IsInteger(to);
  return !integers || Holds(to, from);
}

Value Direct(const Match& m, Builder& b) { return b.Cast(x(m), m.root.dtype()); }

}  // namespace

RuleSet CastRules() {
  return {{Op::kCast,
           {
               {"cast to its own dtype = x", Is(Op::kCast, {x}), x,
                [](const Match& m) { return x(m).dtype() == m.root.dtype(); }},
               {"cast of an exact cast = cast", Is(Op::kCast, {As(y, Is(Op::kCast, {x}))}), Direct, StepIsExact},
           }}};
}

}  // namespace preheat::passes
