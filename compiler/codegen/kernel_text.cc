#include "compiler/codegen/kernel_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/emit_c.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;
using ir::Op;

std::string KernelText::TypeName(int s) const { return std::string(CType(k_.stmts[s].dtype)); }

std::string KernelText::BufferType(size_t b) const {
  return absl::StrCat(k_.buffers[b].written ? "" : "const ", StorageType(k_.buffers[b].dtype));
}

// "x7" in an index is the value of statement 7.
std::string KernelText::Index(const Expr& e) {
  auto name = [&](const std::string& symbol) {
    return symbol[0] == 'x' ? Ref(std::stoi(symbol.substr(1))) : SizeText(symbol);
  };
  return IndexText(e, name, math_);
}

std::string KernelText::Value(const Stmt& stmt) {
  switch (stmt.kind) {
    case Stmt::Kind::kConstant: return ConstantText(stmt.value, stmt.dtype);
    case Stmt::Kind::kIndex: return Index(stmt.index);
    case Stmt::Kind::kCondition: return ConditionText(stmt);
    case Stmt::Kind::kLoad: return LoadValue(stmt);
    case Stmt::Kind::kOp: return OpValue(stmt);
    case Stmt::Kind::kCast: return CastValue(stmt);
    case Stmt::Kind::kWrap: return WrapText(stmt);
    case Stmt::Kind::kScratch: return absl::StrCat("t", stmt.buffer, "[", Index(stmt.index), "]");
    case Stmt::Kind::kResult: break;  // a stage defines it
  }
  return "";
}

std::string KernelText::Element(const Stmt& load) {
  return absl::StrCat("b", load.buffer, "[", Index(load.index), "]");
}

std::string KernelText::LoadValue(const Stmt& load) {
  std::string text = LoadText(Element(load), k_.buffers[load.buffer].dtype, math_);
  if (load.predicate < 0) return text;
  return absl::StrCat("(", Ref(load.predicate), " ? ", text, " : ", ConstantText(ir::Scalar(int64_t{0}), load.dtype),
                      ")");
}

std::string KernelText::CastValue(const Stmt& cast) {
  return CastText(Ref(cast.args[0]), k_.stmts[cast.args[0]].dtype, cast.dtype, math_);
}

std::string KernelText::OpValue(const Stmt& stmt) {
  std::vector<std::string> args;
  for (int arg : stmt.args) args.push_back(Ref(arg));
  return OpText(stmt.op, args, k_.stmts[stmt.args.back()].dtype, stmt.dtype, math_);
}

std::string KernelText::ConditionText(const Stmt& stmt) {
  std::vector<std::string> parts;
  if (stmt.predicate >= 0) parts.push_back(Ref(stmt.predicate));
  for (const Expr& e : stmt.conditions) parts.push_back(absl::StrCat("((", Index(e), ") >= 0)"));
  return absl::StrCat("(", absl::StrJoin(parts, " & "), ")");
}

// What is outside reads element 0 and is reported.
std::string KernelText::WrapText(const Stmt& stmt) {
  std::string i = Ref(stmt.args[0]), n = absl::StrCat("(", Index(stmt.bound), ")");
  std::string wrapped = stmt.from_end ? absl::StrCat("(", i, " < 0 ? ", i, " + ", n, " : ", i, ")") : i;
  return absl::StrCat("((unsigned long)", wrapped, " < (unsigned long)", n, " ? ", wrapped, " : 0L)");
}

std::string KernelText::Failure(const Stmt& stmt) {
  std::string failed;
  if (stmt.kind == Stmt::Kind::kWrap) {
    std::string i = Ref(stmt.args[0]), n = absl::StrCat("(", Index(stmt.bound), ")");
    failed = absl::StrCat("(", i, " < ", stmt.from_end ? absl::StrCat("-", n) : "0", ") | (", i, " >= ", n, ")");
  } else {
    failed = absl::StrCat(Ref(stmt.args[1]), " == 0");
  }
  return stmt.predicate < 0 ? failed : absl::StrCat("(", failed, ") & ", Ref(stmt.predicate));
}

std::string KernelText::Stored(const Store& store) {
  return StoreText(Ref(store.value), k_.stmts[store.value].dtype, k_.buffers[store.buffer].dtype, math_);
}

std::string KernelText::StoreStatement(const Store& store) {
  return absl::StrCat("b", store.buffer, "[", Index(store.index), "] = ", Stored(store), ";");
}

// --- Reductions ---

std::string KernelText::Identity(int a) const { return IdentityText(k_.accumulators[a].op, k_.accumulators[a].dtype); }

std::string KernelText::FoldStatement(int a, const std::string& into, const std::string& v) {
  const DType dtype = k_.accumulators[a].dtype;
  const bool boolean = dtype == DType::kBool, max = k_.accumulators[a].op == Op::kReduceMax;
  switch (k_.accumulators[a].op) {
    case Op::kReduceSum: return absl::StrCat(into, boolean ? " |= " : " += ", v, ";");
    case Op::kReduceProd: return absl::StrCat(into, boolean ? " &= " : " *= ", v, ";");
    case Op::kReduceAny: return absl::StrCat(into, " |= ", v, ";");
    case Op::kReduceAll: return absl::StrCat(into, " &= ", v, ";");
    default: break;
  }
  if (!ir::IsFloat(dtype)) return absl::StrCat(into, " = ", v, max ? " > " : " < ", into, " ? ", v, " : ", into, ";");
  const std::string f = absl::StrCat(max ? "ph_max_" : "ph_min_", ir::DTypeName(dtype));
  math_.insert(f);
  return absl::StrCat(into, " = ", f, "(", into, ", ", v, ");");
}

}  // namespace preheat::codegen
