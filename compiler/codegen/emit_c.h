#ifndef PREHEAT_COMPILER_CODEGEN_EMIT_C_H_
#define PREHEAT_COMPILER_CODEGEN_EMIT_C_H_

#include <functional>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "compiler/codegen/loop_ir.h"

namespace preheat::codegen {

// What every dialect of C has in common: types, index expressions, scalar operators.

// The type computed with: "float" for f32, bf16 and f16, "long" for i64.
absl::string_view CType(ir::DType dtype);
// The type in memory: "unsigned short" for bf16 and f16, "unsigned char" for bool.
absl::string_view StorageType(ir::DType dtype);

// "a0 * 128 + j1"; `name` spells a symbol. floordiv and mod of what may be negative call ph_floor_div_i64 and
// ph_mod_i64, noted in `math`.
std::string IndexText(const ir::Expr& e, const std::function<std::string(const std::string&)>& name,
                      std::set<std::string>& math);

// A scalar constant of that dtype: "0x1.8p+1f", "__builtin_nanf(\"\")", "7L".
std::string ConstantText(ir::Scalar value, ir::DType dtype);

// op applied to operands already spelled; `operand` is their dtype, `result` the result's. Functions that the target
// must bring are noted in `math` by their names in math_functions.h.
std::string OpText(ir::Op op, const std::vector<std::string>& args, ir::DType operand, ir::DType result,
                   std::set<std::string>& math);

// A conversion between computed types; to bf16 and f16 it rounds and comes back as f32.
std::string CastText(const std::string& arg, ir::DType from, ir::DType to, std::set<std::string>& math);

// A value in memory as a computed one, and the reverse.
std::string LoadText(const std::string& lvalue, ir::DType storage, std::set<std::string>& math);
std::string StoreText(const std::string& value, ir::DType computed, ir::DType storage, std::set<std::string>& math);

// The neutral element of a reduction, spelled.
std::string IdentityText(ir::Op op, ir::DType dtype);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_EMIT_C_H_
