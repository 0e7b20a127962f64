#ifndef PREHEAT_COMPILER_IR_EXPR_ARITHMETIC_H_
#define PREHEAT_COMPILER_IR_EXPR_ARITHMETIC_H_

#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "compiler/ir/expr.h"

namespace preheat::ir {

// What the files that make up expr.h share; not for use elsewhere.

// Signed arithmetic that wraps: sizes from outside may be absurd, which is no reason for undefined behaviour.
inline int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t WrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

inline int64_t FloorDivInt(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return WrapMul(a, -1);  // the one quotient that overflows
  int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

absl::string_view FnName(Expr::Fn fn);

// a = quotient * divisor + rest where every term of `rest` fails to divide; the divisor is one term.
std::pair<Expr, Expr> DivideTerms(const Expr& a, const Expr& divisor);

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_EXPR_ARITHMETIC_H_
