#ifndef PREHEAT_COMPILER_CAPTURE_GUARD_TEXT_H_
#define PREHEAT_COMPILER_CAPTURE_GUARD_TEXT_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/ir/expr.h"

namespace preheat::capture {

// Reads a condition on sizes as torch.export writes it, a Python comparison: "L['x'].size()[0] % 8 == 0".
// Known: sizes, integers, + - * // %, parentheses and one of <= < >= > ==. The result are expressions that
// are >= 0 exactly when the condition holds. std::nullopt for anything else: a guard that is not understood
// says nothing.
//
// `size_of` gives the size of an input along an axis, by the input's name; std::nullopt if there is none.
std::optional<std::vector<ir::Expr>> ParseGuard(
    absl::string_view text, const std::function<std::optional<ir::Expr>(const std::string&, int64_t)>& size_of);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_GUARD_TEXT_H_
