#include "compiler/codegen/cuda/cuda_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/cuda/cuda_math.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/support/status_macros.h"

namespace preheat::codegen {

using ir::DType;
using ir::Op;

int64_t PowerOfTwoFrom(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

CudaText::CudaText(const Kernel& kernel, const Schedule& schedule)
    : KernelText(kernel, 1), schedule_(schedule), users_(kernel.stmts.size()) {
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

std::string CudaText::Signature(const CudaLaunch& launch) const {
  std::vector<std::string> parameters;
  for (size_t b = 0; b < k_.buffers.size(); ++b) {
    parameters.push_back(absl::StrCat(BufferType(b), "* __restrict__ b", b));
  }
  for (const std::string& symbol : k_.symbols) parameters.push_back(absl::StrCat("const long ", SizeName(symbol)));
  const int64_t threads = launch.threads_x * launch.threads_y;
  return absl::StrCat("extern \"C\" __global__ void __launch_bounds__(", threads,
                      threads == 512 && two_blocks_ ? ", 2" : "", ") ", kSymbol, "(", absl::StrJoin(parameters, ", "),
                      parameters.empty() ? "" : ", ", "int* error, char* scratch, const long extent) {\n");
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
  std::string body = absl::StrCat(Signature(launch), AlignedText(), head_, text(), "}\n");
  ASSIGN_OR_RETURN(std::string functions, CudaMathSource(math_));
  std::string source = absl::StrCat(absl::StrJoin(types_, ""), functions, body);
  source = BuiltinsFor(source) + source;
  CudaKernel emitted;
  emitted.code = NamedKernel(OpsName(k_), source);
  emitted.launch = std::move(launch);
  return emitted;
}

void CudaText::DefineOuter(const std::vector<Loop>& outer) {
  math_.insert("ph_quotient");
  for (size_t i = outer.size(); i-- > 0;) {
    std::string size = absl::StrCat("(", Index(outer[i].size), ")");
    if (i == 0) {
      Line(absl::StrCat("const long ", outer[i].var, " = q;"));
    } else {
      Line(absl::StrCat("const long quotient", i, " = ph_quotient(q, ", size, ");"));
      Line(absl::StrCat("const long ", outer[i].var, " = q - quotient", i, " * ", size, ";"));
      Line(absl::StrCat("q = quotient", i, ";"));
    }
  }
  Line("(void)q;");
}

// --- Scalars ---

std::string CudaText::Ref(int s) const {
  const Stmt& stmt = k_.stmts[s];
  if (stmt.kind != Stmt::Kind::kResult) return absl::StrCat("v", s, arrays_.count(s) ? "[u]" : "");
  return absl::StrCat("r", stmt.accumulator, IsArg(k_.accumulators[stmt.accumulator].op) ? "i" : "", lanes_);
}

std::string CudaText::SizeText(const std::string& symbol) const {
  const bool size = std::find(k_.symbols.begin(), k_.symbols.end(), symbol) != k_.symbols.end();
  return size ? SizeName(symbol) : symbol;
}

std::string CudaText::CastValue(const Stmt& cast) {
  return SkipsRounding(cast) ? Ref(cast.args[0]) : KernelText::CastValue(cast);
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
  return KernelText::OpValue(stmt);
}

std::string CudaText::Element(const Stmt& load) {
  auto it = fetched_.find(static_cast<int>(&load - k_.stmts.data()));
  return it != fetched_.end() ? it->second : KernelText::Element(load);
}

void CudaText::Define(int s) {
  const Stmt& stmt = k_.stmts[s];
  if (stmt.kind == Stmt::Kind::kResult) return;
  Line(arrays_.count(s) ? absl::StrCat(Ref(s), " = ", Value(stmt), ";")
                        : absl::StrCat("const ", TypeName(s), " ", Ref(s), " = ", Value(stmt), ";"));
  // Divisions by zero go unnoticed on a GPU, in eager too.
  if (stmt.kind == Stmt::Kind::kWrap) Line(absl::StrCat("if (", Failure(stmt), ") *error = ", stmt.error_site, ";"));
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

// --- Reductions ---

std::string CudaText::SharedType(DType dtype) { return dtype == DType::kBool ? "int" : std::string(CType(dtype)); }

void CudaText::DeclareAccumulators(const std::vector<int>& accumulators) {
  for (int a : accumulators) {
    const Accumulator& accumulator = k_.accumulators[a];
    Line(absl::StrCat(CType(accumulator.dtype), " r", a, " = ", Identity(a), ";"));
    if (IsArg(accumulator.op)) Line(absl::StrCat("long r", a, "i = 0;"));
  }
}

void CudaText::Accumulate(int a, const std::string& v, const std::string& position) {
  if (IsArg(k_.accumulators[a].op)) return AccumulateArg(a, v, position);
  Line(FoldStatement(a, absl::StrCat("r", a, lanes_), v));
}

void CudaText::Shuffle(int a, const std::string& type, const std::string& lanes) {
  const Accumulator& accumulator = k_.accumulators[a];
  const bool narrow = ir::DTypeSize(accumulator.dtype) < 4 && !ir::IsFloat(accumulator.dtype);
  Line("#pragma unroll");
  Open(absl::StrCat("for (", lanes, ")"));
  Line(absl::StrCat("const ", type, " o = (", type, ")__shfl_xor_sync(0xffffffffu, ", narrow ? "(int)" : "", "r", a,
                    lanes_, ", m);"));
  if (IsArg(accumulator.op))
    Line(absl::StrCat("const long oi = __shfl_xor_sync(0xffffffffu, r", a, "i", lanes_, ", m);"));
  Accumulate(a, "o", "oi");
  Close();
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
  OpenIf("");
  Line(absl::StrCat("const long at = ", position, ";"));
  Line(absl::StrCat("const bool better = ", better, " || (", same, " && at < ", i, ");"));
  Line(absl::StrCat(r, " = better ? ", v, " : ", r, ";"));
  Line(absl::StrCat(i, " = better ? at : ", i, ";"));
  Close();
}

}  // namespace preheat::codegen
