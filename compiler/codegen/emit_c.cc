#include "compiler/codegen/emit_c.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include "absl/strings/str_cat.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;
using ir::Op;

namespace {

std::string Name(DType dtype) { return std::string(ir::DTypeName(dtype)); }

std::string Call(const std::string& function, const std::vector<std::string>& args, std::set<std::string>& math) {
  math.insert(function);
  std::string text = absl::StrCat(function, "(");
  for (size_t i = 0; i < args.size(); ++i) absl::StrAppend(&text, i ? ", " : "", args[i]);
  return text + ")";
}

std::string FloatText(double value, DType dtype) {
  bool single = ComputeType(dtype) == DType::kF32;
  if (single) value = static_cast<float>(value);
  if (std::isnan(value)) return single ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")";
  if (std::isinf(value)) {
    return absl::StrCat(value < 0 ? "-" : "", single ? "__builtin_inff()" : "__builtin_inf()");
  }
  char text[64];
  std::snprintf(text, sizeof(text), "%a%s", value, single ? "f" : "");
  return value < 0 || std::signbit(value) ? absl::StrCat("(", text, ")") : std::string(text);
}

std::string IntegerText(int64_t value, DType dtype) {
  if (dtype == DType::kBool) return value ? "true" : "false";
  if (value == std::numeric_limits<int64_t>::min()) return "(-0x7fffffffffffffffL - 1)";
  return absl::StrCat("((", std::string(CType(dtype)), ")", value, "L)");
}

std::string Infix(const std::vector<std::string>& args, absl::string_view op) {
  return absl::StrCat("(", args[0], " ", op, " ", args[1], ")");
}

// Arithmetic on narrow integers is done in int: bring it back.
std::string Narrow(std::string text, DType dtype) {
  if (dtype == DType::kU8 || dtype == DType::kI8 || dtype == DType::kI16) {
    return absl::StrCat("((", std::string(CType(dtype)), ")", text, ")");
  }
  return text;
}

}  // namespace

absl::string_view CType(DType dtype) {
  switch (dtype) {
    case DType::kBool: return "bool";
    case DType::kU8: return "unsigned char";
    case DType::kI8: return "signed char";
    case DType::kI16: return "short";
    case DType::kI32: return "int";
    case DType::kI64: return "long";
    case DType::kF64: return "double";
    default: return "float";
  }
}

absl::string_view StorageType(DType dtype) {
  if (dtype == DType::kBool) return "unsigned char";
  if (IsHalf(dtype)) return "unsigned short";
  return CType(dtype);
}

std::string IndexText(const Expr& e, const std::function<std::string(const std::string&)>& name,
                      std::set<std::string>& math) {
  std::string text;
  for (const auto& [monomial, coefficient] : e.terms()) {
    std::string term = coefficient == 1 && !monomial.empty() ? "" : absl::StrCat(coefficient, "L");
    for (const Expr::Atom& atom : monomial) {
      std::string factor;
      if (atom.is_symbol()) {
        factor = name(atom.symbol);
      } else {
        std::vector<std::string> args = {IndexText(atom.args[0], name, math), IndexText(atom.args[1], name, math)};
        switch (atom.fn) {
          case Expr::Fn::kFloorDiv: factor = Call("ph_floor_div_i64", args, math); break;
          case Expr::Fn::kMod: factor = Call("ph_mod_i64", args, math); break;
          case Expr::Fn::kMax: factor = Call("ph_max_i64", args, math); break;
          case Expr::Fn::kMin: factor = Call("ph_min_i64", args, math); break;
        }
      }
      absl::StrAppend(&term, term.empty() ? "" : " * ", factor);
    }
    absl::StrAppend(&text, text.empty() ? "" : " + ", term);
  }
  return text.empty() ? "0L" : text;
}

std::string ConstantText(ir::Scalar value, DType dtype) {
  bool floating = ir::IsFloat(dtype);
  if (floating) {
    double v =
        std::holds_alternative<double>(value) ? std::get<double>(value) : static_cast<double>(std::get<int64_t>(value));
    return FloatText(v, dtype);
  }
  int64_t v =
      std::holds_alternative<int64_t>(value) ? std::get<int64_t>(value) : static_cast<int64_t>(std::get<double>(value));
  return IntegerText(v, dtype);
}

std::string OpText(Op op, const std::vector<std::string>& args, DType operand, DType result,
                   std::set<std::string>& math) {
  operand = ComputeType(operand);
  bool boolean = operand == DType::kBool, floating = ir::IsFloat(operand);
  auto function = [&] {
    return Call(absl::StrCat("ph_", std::string(ir::Info(op).name), "_", Name(operand)), args, math);
  };
  switch (op) {
    case Op::kAdd: return boolean ? Infix(args, "|") : Narrow(Infix(args, "+"), operand);
    case Op::kSub: return boolean ? Infix(args, "^") : Narrow(Infix(args, "-"), operand);
    case Op::kMul: return boolean ? Infix(args, "&") : Narrow(Infix(args, "*"), operand);
    case Op::kDiv: return floating ? Infix(args, "/") : function();
    case Op::kNeg: return Narrow(absl::StrCat("(-", args[0], ")"), operand);
    case Op::kNot:
      return boolean ? absl::StrCat("(!", args[0], ")") : Narrow(absl::StrCat("(~", args[0], ")"), operand);
    case Op::kIsNan: return floating ? absl::StrCat("(", args[0], " != ", args[0], ")") : "false";
    case Op::kAnd: return Narrow(Infix(args, "&"), operand);
    case Op::kOr: return Narrow(Infix(args, "|"), operand);
    case Op::kXor: return Narrow(Infix(args, "^"), operand);
    case Op::kEq: return Infix(args, "==");
    case Op::kNe: return Infix(args, "!=");
    case Op::kLt: return Infix(args, "<");
    case Op::kLe: return Infix(args, "<=");
    case Op::kGt: return Infix(args, ">");
    case Op::kGe: return Infix(args, ">=");
    case Op::kWhere: return absl::StrCat("(", args[0], " ? ", args[1], " : ", args[2], ")");
    case Op::kMax: return boolean ? Infix(args, "|") : function();
    case Op::kMin: return boolean ? Infix(args, "&") : function();
    case Op::kAbs: return operand == DType::kU8 || boolean ? args[0] : function();
    case Op::kSign: return boolean ? args[0] : function();
    case Op::kCeil:
    case Op::kFloor:
    case Op::kTrunc:
    case Op::kRound: return floating ? function() : args[0];
    default: break;
  }
  (void)result;
  return function();
}

std::string CastText(const std::string& arg, DType from, DType to, std::set<std::string>& math) {
  from = ComputeType(from);
  if (from == to) return arg;
  if (to == DType::kBool) return absl::StrCat("(", arg, " != 0)");
  if (IsHalf(to)) {
    DType source = from == DType::kF64 ? DType::kF64 : DType::kF32;
    std::string wide = source == from ? arg : absl::StrCat("((float)", arg, ")");
    std::string rounded = Call(absl::StrCat("ph_", Name(source), "_to_", Name(to)), {wide}, math);
    return Call(absl::StrCat("ph_", Name(to), "_to_f32"), {rounded}, math);
  }
  if (ir::IsFloat(from) && ir::IsInteger(to)) {
    return Call(absl::StrCat("ph_", Name(from), "_to_", Name(to)), {arg}, math);
  }
  return absl::StrCat("((", std::string(CType(to)), ")", arg, ")");
}

std::string LoadText(const std::string& lvalue, DType storage, std::set<std::string>& math) {
  if (storage == DType::kBool) return absl::StrCat("(", lvalue, " != 0)");
  if (IsHalf(storage)) {
    return Call(absl::StrCat("ph_", Name(storage), "_to_f32"), {lvalue}, math);
  }
  return lvalue;
}

std::string StoreText(const std::string& value, DType computed, DType storage, std::set<std::string>& math) {
  (void)computed;
  if (storage == DType::kBool) return absl::StrCat("(unsigned char)", value);
  if (IsHalf(storage)) {
    return Call(absl::StrCat("ph_f32_to_", Name(storage)), {value}, math);
  }
  return value;
}

std::string IdentityText(Op op, DType dtype) {
  bool floating = ir::IsFloat(dtype);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto extreme = [&](bool least) -> std::string {
    if (floating) return FloatText(least ? -kInfinity : kInfinity, dtype);
    switch (dtype) {
      case DType::kBool: return least ? "false" : "true";
      case DType::kU8: return least ? "0" : "255";
      case DType::kI8: return least ? "-128" : "127";
      case DType::kI16: return least ? "-32768" : "32767";
      case DType::kI32: return least ? "(-2147483647 - 1)" : "2147483647";
      default: return least ? "(-0x7fffffffffffffffL - 1)" : "0x7fffffffffffffffL";
    }
  };
  switch (op) {
    case Op::kReduceProd: return ConstantText(ir::Scalar(int64_t{1}), dtype);
    case Op::kReduceMax:
    case Op::kArgMax: return extreme(true);
    case Op::kReduceMin:
    case Op::kArgMin: return extreme(false);
    case Op::kReduceAny: return "false";
    case Op::kReduceAll: return "true";
    default: return ConstantText(ir::Scalar(int64_t{0}), dtype);
  }
}

}  // namespace preheat::codegen
