#include "compiler/codegen/cuda/cuda_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cuda/cuda_math.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;
using ir::Op;

namespace {

constexpr char kSymbol[] = "PREHEAT_KERNEL";

}  // namespace

CudaText::CudaText(const Kernel& kernel) : k_(kernel), users_(kernel.stmts.size()) {
  for (const KernelBuffer& buffer : k_.buffers) narrow_ |= IsHalf(buffer.dtype);
  for (size_t s = 0; s < k_.stmts.size(); ++s) {
    for (int arg : k_.stmts[s].args) users_[arg].push_back(static_cast<int>(s));
  }
  auto note = [&](const Store& store) {
    stored_.insert(store.value);
    if (!IsHalf(k_.buffers[store.buffer].dtype)) stored_wide_.insert(store.value);
    if (k_.buffers[store.buffer].dtype != DType::kBF16) stored_exactly_.insert(store.value);
  };
  for (const Item& item : k_.order) {
    if (item.store) note(*item.store);
    if (!item.stage) continue;
    for (const Piece& piece : item.stage->pieces) {
      for (const Store& store : piece.stores) note(store);
      for (const auto& [a, value] : piece.accumulations) (void)a, reduced_.insert(value);
    }
  }
}

// --- The kernel around its body ---

// Up to four distinct operators, in order: what people see in a profile.
std::string CudaText::OpsName() const {
  std::vector<std::string> ops;
  auto note = [&](Op op) {
    std::string name(ir::Info(op).name);
    if (ops.size() < 4 && std::find(ops.begin(), ops.end(), name) == ops.end()) ops.push_back(name);
  };
  for (const Accumulator& a : k_.accumulators) note(a.op);
  for (const Stmt& s : k_.stmts) {
    if (s.kind == Stmt::Kind::kOp) note(s.op);
    if (s.kind == Stmt::Kind::kWrap && ops.empty()) ops.push_back("take");
  }
  return ops.empty() ? "copy" : absl::StrJoin(ops, "_");
}

std::string CudaText::Signature(const CudaLaunch& launch) const {
  std::vector<std::string> parameters;
  for (size_t b = 0; b < k_.buffers.size(); ++b) {
    parameters.push_back(absl::StrCat(k_.buffers[b].written ? "" : "const ",
                                      std::string(StorageType(k_.buffers[b].dtype)), "* __restrict__ b", b));
  }
  for (const std::string& symbol : k_.symbols) parameters.push_back(absl::StrCat("const long ", SizeName(symbol)));
  // Two blocks of 512 threads on a multiprocessor: one loads while the other computes.
  const int64_t threads = launch.threads_x * launch.threads_y;
  return absl::StrCat("extern \"C\" __global__ void __launch_bounds__(", threads, threads == 512 ? ", 2" : "", ") ",
                      kSymbol, "(", absl::StrJoin(parameters, ", "), parameters.empty() ? "" : ", ",
                      "int* error, char* scratch, const long extent) {\n");
}

// Whether every address that vectors start from is aligned for them: what torch allocates is, what views begin at may
// not be.
std::string CudaText::AlignedText() const {
  if (aligned_.empty()) return "";
  std::vector<std::string> parts;
  for (const auto& [buffer, bytes] : aligned_) {
    parts.push_back(absl::StrCat("((unsigned long)b", buffer, " & ", bytes - 1, ")"));
  }
  return absl::StrCat("  const bool aligned = (", absl::StrJoin(parts, " | "), ") == 0;\n");
}

absl::StatusOr<CudaKernel> CudaText::Finish(CudaLaunch launch) {
  std::string body = absl::StrCat(Signature(launch), AlignedText(), head_, out_, "}\n");
  ASSIGN_OR_RETURN(std::string functions, CudaMathSource(math_));
  std::string source = absl::StrCat(absl::StrJoin(types_, ""), functions, body);
  source = BuiltinsFor(source) + source;
  CudaKernel emitted;
  emitted.code.symbol = absl::StrCat("preheat_", OpsName(), "_", Digest(source).substr(0, 8));
  emitted.code.source = absl::StrReplaceAll(source, {{kSymbol, emitted.code.symbol}});
  emitted.launch = std::move(launch);
  return emitted;
}

void CudaText::Line(const std::string& text) { absl::StrAppend(&out_, std::string(2 * indent_, ' '), text, "\n"); }
void CudaText::Open(const std::string& text) {
  Line(text.empty() ? "{" : text + " {");
  ++indent_;
}
void CudaText::Close() {
  --indent_;
  Line("}");
}

// --- Scalars ---

std::string CudaText::TypeName(int s) const { return std::string(CType(k_.stmts[s].dtype)); }

std::string CudaText::Ref(int s) const {
  const Stmt& stmt = k_.stmts[s];
  if (stmt.kind != Stmt::Kind::kResult) return absl::StrCat("v", s, arrays_.count(s) ? "[u]" : "");
  return absl::StrCat("r", stmt.accumulator, IsArg(k_.accumulators[stmt.accumulator].op) ? "i" : "", lanes_);
}

std::string CudaText::Index(const Expr& e) {
  auto name = [&](const std::string& symbol) {
    if (std::find(k_.symbols.begin(), k_.symbols.end(), symbol) != k_.symbols.end()) return SizeName(symbol);
    return symbol[0] == 'x' ? Ref(std::stoi(symbol.substr(1))) : symbol;
  };
  return IndexText(e, name, math_);
}

std::string CudaText::Value(const Stmt& stmt) {
  switch (stmt.kind) {
    case Stmt::Kind::kConstant: return ConstantText(stmt.value, stmt.dtype);
    case Stmt::Kind::kIndex: return Index(stmt.index);
    case Stmt::Kind::kCondition: return ConditionText(stmt);
    case Stmt::Kind::kLoad: return LoadExpr(stmt);
    case Stmt::Kind::kCast:
      if (SkipsRounding(stmt)) return Ref(stmt.args[0]);
      return CastText(Ref(stmt.args[0]), k_.stmts[stmt.args[0]].dtype, stmt.dtype, math_);
    case Stmt::Kind::kWrap: return WrapText(stmt);
    case Stmt::Kind::kScratch:
    case Stmt::Kind::kResult: return "";
    case Stmt::Kind::kOp: break;
  }
  return OpValue(stmt);
}

// Whether all that is done with a statement's value is to round it to bf16.
bool CudaText::RoundedAtOnce(int s) const {
  if (stored_exactly_.count(s) || reduced_.count(s)) return false;
  return std::all_of(users_[s].begin(), users_[s].end(), [&](int user) {
    return k_.stmts[user].kind == Stmt::Kind::kCast && k_.stmts[user].dtype == DType::kBF16;
  });
}

// Whether a rounding to 16 bits between two operators can be left out: it would only be an error more. Not where what
// was rounded is also used as it was (the difference of the two may be wanted), nor where the result is compared or
// counted with, in this kernel or (it being stored) in others, which round it, nor where f32 is stored or summed in the
// end: there the program may have meant to round.
bool CudaText::SkipsRounding(const Stmt& cast) {
  if (!IsHalf(cast.dtype) || k_.stmts[cast.args[0]].dtype != DType::kF32) return false;
  const int source = cast.args[0], number = static_cast<int>(&cast - k_.stmts.data());
  const bool only_here = users_[source].size() == 1 && !stored_.count(source) && !reduced_.count(source) &&
                         k_.stmts[source].kind == Stmt::Kind::kOp;
  return only_here && !users_[number].empty() && !stored_.count(number) && IsSmooth(number);
}

// Whether all that comes of a value depends on it smoothly and is stored in 16 bits.
bool CudaText::IsSmooth(int s) {
  auto [it, fresh] = smooth_.try_emplace(s, true);
  if (!fresh) return it->second;
  bool smooth = !reduced_.count(s) && !stored_wide_.count(s);
  for (int user : users_[s]) {
    const Stmt& stmt = k_.stmts[user];
    bool fine = stmt.kind == Stmt::Kind::kCast && ir::IsFloat(stmt.dtype);
    if (stmt.kind == Stmt::Kind::kOp) {
      switch (stmt.op) {
        case Op::kAdd:
        case Op::kSub:
        case Op::kMul:
        case Op::kDiv:
        case Op::kNeg:
        case Op::kExp:
        case Op::kTanh:
        case Op::kErf:
        case Op::kSqrt:
        case Op::kRsqrt:
        case Op::kReciprocal:
        case Op::kWhere: fine = true; break;
        default: break;
      }
    }
    smooth = smooth && fine && IsSmooth(user);
  }
  return smooth_[s] = smooth;
}

// x, of 1 + op(x).
std::optional<int> CudaText::OnePlus(const Stmt& add, Op op) const {
  for (int i : {0, 1}) {
    const Stmt &one = k_.stmts[add.args[i]], &other = k_.stmts[add.args[1 - i]];
    const bool is_one =
        one.kind == Stmt::Kind::kConstant && (one.value == ir::Scalar(1.0) || one.value == ir::Scalar(int64_t{1}));
    if (is_one && other.kind == Stmt::Kind::kOp && other.op == op) return other.args[0];
  }
  return std::nullopt;
}

// In kernels that hold 16-bit floats: instructions of about 2^-22 relative error in place of exact functions, as far
// as the result cannot be told apart; tanh by one of 2^-11 where it is rounded to bf16 (2^-9) at once.
std::string CudaText::OpValue(const Stmt& stmt) {
  std::vector<std::string> args;
  for (int arg : stmt.args) args.push_back(Ref(arg));
  const DType operand = k_.stmts[stmt.args.back()].dtype;
  auto call = [&](const char* name) {
    math_.insert(name);
    return absl::StrCat(name, "(", absl::StrJoin(args, ", "), ")");
  };
  const int number = static_cast<int>(&stmt - k_.stmts.data());
  if (narrow_ && operand == DType::kF32) {
    // gelu's sums, which cancel for negative arguments: written so that they do not.
    if (stmt.op == Op::kAdd) {
      if (auto of = OnePlus(stmt, Op::kErf)) return args = {Ref(*of)}, call("ph_near_one_plus_erf");
      if (auto of = OnePlus(stmt, Op::kTanh)) return args = {Ref(*of)}, call("ph_near_one_plus_tanh");
    }
    switch (stmt.op) {
      case Op::kExp: return call("ph_near_exp");
      case Op::kDiv:
        // One reciprocal for all that a number divides.
        if (!varying_.count(stmt.args[1]) && !stored_exactly_.count(number)) {
          math_.insert("ph_near_reciprocal");
          return absl::StrCat("(", args[0], " * ph_near_reciprocal(", args[1], "))");
        }
        return call("ph_near_div");
      case Op::kReciprocal: return call("ph_near_reciprocal");
      case Op::kErf: return call("ph_near_erf");
      case Op::kTanh: return call(RoundedAtOnce(number) ? "ph_rough_tanh" : "ph_near_tanh");
      case Op::kSqrt: return call("ph_near_sqrt");
      default: break;
    }
  }
  return OpText(stmt.op, args, operand, stmt.dtype, math_);
}

std::string CudaText::ConditionText(const Stmt& stmt) {
  std::vector<std::string> parts;
  if (stmt.predicate >= 0) parts.push_back(Ref(stmt.predicate));
  for (const Expr& e : stmt.conditions) parts.push_back(absl::StrCat("((", Index(e), ") >= 0)"));
  return absl::StrCat("(", absl::StrJoin(parts, " & "), ")");
}

std::string CudaText::Element(const Stmt& load) {
  auto it = fetched_.find(static_cast<int>(&load - k_.stmts.data()));
  return it != fetched_.end() ? it->second : absl::StrCat("b", load.buffer, "[", Index(load.index), "]");
}

std::string CudaText::LoadExpr(const Stmt& stmt) {
  std::string load = LoadText(Element(stmt), k_.buffers[stmt.buffer].dtype, math_);
  if (stmt.predicate < 0) return load;
  return absl::StrCat("(", Ref(stmt.predicate), " ? ", load, " : ", ConstantText(ir::Scalar(int64_t{0}), stmt.dtype),
                      ")");
}

// Negative indices count from the end; what is still outside reads element 0 and is reported.
std::string CudaText::WrapText(const Stmt& stmt) {
  std::string i = Ref(stmt.args[0]), n = absl::StrCat("(", Index(stmt.bound), ")");
  std::string wrapped = absl::StrCat("(", i, " < 0 ? ", i, " + ", n, " : ", i, ")");
  return absl::StrCat("((unsigned long)", wrapped, " < (unsigned long)", n, " ? ", wrapped, " : 0L)");
}

void CudaText::Define(int s) {
  const Stmt& stmt = k_.stmts[s];
  if (stmt.kind == Stmt::Kind::kResult) return;
  Line(arrays_.count(s) ? absl::StrCat(Ref(s), " = ", Value(stmt), ";")
                        : absl::StrCat("const ", TypeName(s), " ", Ref(s), " = ", Value(stmt), ";"));
  if (stmt.kind != Stmt::Kind::kWrap) return;
  std::string i = Ref(stmt.args[0]), n = absl::StrCat("(", Index(stmt.bound), ")");
  std::string outside = absl::StrCat("(", i, " < -", n, ") | (", i, " >= ", n, ")");
  if (stmt.predicate >= 0) outside = absl::StrCat("(", outside, ") & ", Ref(stmt.predicate));
  Line(absl::StrCat("if (", outside, ") *error = ", stmt.error_site, ";"));
}

int CudaText::Unrounded(const Store& store) const {
  const Stmt& stmt = k_.stmts[store.value];
  const DType dtype = k_.buffers[store.buffer].dtype;
  if (stmt.kind != Stmt::Kind::kCast || stmt.dtype != dtype || !IsHalf(dtype)) return store.value;
  const DType from = k_.stmts[stmt.args[0]].dtype;  // f32 is rounded by the store itself
  return from == DType::kF32 || IsHalf(from) ? stmt.args[0] : store.value;
}

std::string CudaText::Stored(const Store& store) {
  const int value = Unrounded(store);
  return StoreText(Ref(value), k_.stmts[value].dtype, k_.buffers[store.buffer].dtype, math_);
}

std::string CudaText::StoreStatement(const Store& store) {
  return absl::StrCat("b", store.buffer, "[", Index(store.index), "] = ", Stored(store), ";");
}

// --- Reductions ---

int64_t CudaText::AccumulatorBytes(const Accumulator& a) {
  return std::max<int64_t>(4, ir::DTypeSize(a.dtype)) + (IsArg(a.op) ? 8 : 0);
}

std::string CudaText::SharedType(DType dtype) { return dtype == DType::kBool ? "int" : std::string(CType(dtype)); }

std::string CudaText::Identity(int a) const { return IdentityText(k_.accumulators[a].op, k_.accumulators[a].dtype); }

void CudaText::DeclareAccumulators(const std::vector<int>& accumulators) {
  for (int a : accumulators) {
    const Accumulator& accumulator = k_.accumulators[a];
    Line(absl::StrCat(std::string(CType(accumulator.dtype)), " r", a, " = ", Identity(a), ";"));
    if (IsArg(accumulator.op)) Line(absl::StrCat("long r", a, "i = 0;"));
  }
}

void CudaText::Accumulate(int a, const std::string& v, const std::string& position) {
  const Accumulator& accumulator = k_.accumulators[a];
  std::string r = absl::StrCat("r", a, lanes_);
  if (IsArg(accumulator.op)) return AccumulateArg(a, v, position);
  bool boolean = accumulator.dtype == DType::kBool;
  switch (accumulator.op) {
    case Op::kReduceSum: Line(absl::StrCat(r, boolean ? " |= " : " += ", v, ";")); break;
    case Op::kReduceProd: Line(absl::StrCat(r, boolean ? " &= " : " *= ", v, ";")); break;
    case Op::kReduceAny: Line(absl::StrCat(r, " |= ", v, ";")); break;
    case Op::kReduceAll: Line(absl::StrCat(r, " &= ", v, ";")); break;
    default: {
      bool max = accumulator.op == Op::kReduceMax;
      if (!ir::IsFloat(accumulator.dtype)) {
        Line(absl::StrCat(r, " = ", v, max ? " > " : " < ", r, " ? ", v, " : ", r, ";"));
        break;
      }
      std::string f = absl::StrCat(max ? "ph_max_" : "ph_min_", std::string(ir::DTypeName(accumulator.dtype)));
      math_.insert(f);
      Line(absl::StrCat(r, " = ", f, "(", r, ", ", v, ");"));
    }
  }
}

// The first of the best: NaN is best of all, and among equals the least position.
void CudaText::AccumulateArg(int a, const std::string& v, const std::string& position) {
  const Accumulator& accumulator = k_.accumulators[a];
  std::string r = absl::StrCat("r", a, lanes_), i = absl::StrCat("r", a, "i", lanes_);
  std::string better = absl::StrCat(v, accumulator.op == Op::kArgMax ? " > " : " < ", r),
              same = absl::StrCat(v, " == ", r);
  if (ir::IsFloat(accumulator.dtype)) {
    better = absl::StrCat("(", better, " && ", r, " == ", r, ") || (", v, " != ", v, " && ", r, " == ", r, ")");
    same = absl::StrCat("(", same, " || (", v, " != ", v, " && ", r, " != ", r, "))");
  }
  Open("");
  Line(absl::StrCat("const long at = ", position, ";"));
  Line(absl::StrCat("const bool better = ", better, " || (", same, " && at < ", i, ");"));
  Line(absl::StrCat(r, " = better ? ", v, " : ", r, ";"));
  Line(absl::StrCat(i, " = better ? at : ", i, ";"));
  Close();
}

}  // namespace preheat::codegen
