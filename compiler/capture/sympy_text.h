#ifndef PREHEAT_COMPILER_CAPTURE_SYMPY_TEXT_H_
#define PREHEAT_COMPILER_CAPTURE_SYMPY_TEXT_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/ir/expr.h"

namespace preheat::capture {

// Reads an integer expression as sympy's srepr writes it, the form in which torch.export keeps symbolic
// sizes: "Add(Integer(-1), FloorDiv(Symbol('s0', positive=True, integer=True), Integer(2)))".
//
// `symbol` says what a name stands for, and may refuse it. Known: Symbol, Integer, One, Zero, NegativeOne,
// Add, Mul, Pow with a constant exponent, FloorDiv, CleanDiv, CeilDiv, CeilToInt, Mod, PythonMod, Max, Min.
// Kind "unsupported_expression" for others; "size_overflow" where a coefficient would leave 2^48.
absl::StatusOr<ir::Expr> ParseSympy(absl::string_view text,
                                    const std::function<absl::StatusOr<ir::Expr>(const std::string&)>& symbol);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_SYMPY_TEXT_H_
