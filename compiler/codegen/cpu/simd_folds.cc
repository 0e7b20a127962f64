#include "compiler/codegen/cpu/simd_folds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/emit_c.h"

namespace preheat::codegen {

using ir::DType;
using ir::Op;

namespace {

constexpr int kCheapBody = 14, kFairBody = 28;  // in simple operations; a function counts ten
constexpr int64_t kLongLoop = 256;

std::string Suffix(int copy) { return absl::StrCat("_", copy); }

int CostOf(const Stmt& stmt) {
  const bool function = stmt.kind == Stmt::Kind::kOp && stmt.op >= Op::kExp && stmt.op <= Op::kErfc;
  return function ? 10 : stmt.kind == Stmt::Kind::kConstant ? 0 : 1;
}

}  // namespace

// The reduction identifier of `#pragma omp simd reduction(...)`; empty for those that are no plain fold.
std::string SimdFolds::ReductionName(const Accumulator& a) const {
  const bool floating = ir::IsFloat(a.dtype);
  switch (a.op) {
    case Op::kReduceSum: return a.dtype == DType::kBool ? "|" : "+";
    case Op::kReduceProd: return a.dtype == DType::kBool ? "&" : "*";
    case Op::kReduceMax: return floating ? absl::StrCat("phr_max_", ir::DTypeName(a.dtype)) : "max";
    case Op::kReduceMin: return floating ? absl::StrCat("phr_min_", ir::DTypeName(a.dtype)) : "min";
    case Op::kReduceAny: return "|";
    case Op::kReduceAll: return "&";
    default: return "";
  }
}

void SimdFolds::EmitSimd(const Piece& piece, const std::vector<std::string>& suffixes) {
  std::string clauses;
  for (const auto& [a, value] : piece.accumulations) {
    const std::string reduction = ReductionName(k_.accumulators[a]);
    if (reduction.empty()) return;  // a fold with a position: in order
    if (reduction.rfind("phr_", 0) == 0) math_.insert(absl::StrCat("ph_", reduction.substr(4)));
    const char* separator = ":";
    absl::StrAppend(&clauses, " reduction(", reduction);
    for (const std::string& suffix : suffixes) {
      absl::StrAppend(&clauses, separator, "r", a, suffix);
      separator = ",";
    }
    absl::StrAppend(&clauses, ")");
  }
  const bool checks =
      std::any_of(piece.body.begin(), piece.body.end(), [&](int s) { return k_.stmts[s].error_site != 0; });
  if (checks) absl::StrAppend(&clauses, " reduction(|:bad)");
  Line(absl::StrCat("#pragma omp simd", clauses));
}

bool SimdFolds::AddsFloats(const Piece& piece) const {
  bool adds = false;
  for (const auto& [a, value] : piece.accumulations) {
    const Accumulator& accumulator = k_.accumulators[a];
    if (ReductionName(accumulator).empty()) return false;
    adds |= accumulator.op == Op::kReduceSum && ir::IsFloat(accumulator.dtype);
  }
  return adds;
}

int SimdFolds::CopiesOf(const Piece& piece) const {
  const auto size = (piece.end - piece.begin).constant();
  if (piece.accumulations.empty() || (size && *size < kLongLoop)) return 1;
  for (const auto& [a, value] : piece.accumulations) {
    if (ReductionName(k_.accumulators[a]).empty()) return 1;
  }
  int cost = 0;
  for (int s : piece.body) {
    if (k_.stmts[s].error_site != 0) return 1;
    cost += CostOf(k_.stmts[s]);
  }
  if (k_.copies > 0) return k_.copies;
  const size_t folds = piece.accumulations.size();
  return cost <= kCheapBody && folds <= 2 ? 4 : cost <= kFairBody && folds <= 4 ? 2 : 1;
}

void SimdFolds::DeclareParts(const Piece& piece, const std::vector<std::string>& suffixes) {
  for (const auto& [a, value] : piece.accumulations) {
    for (const std::string& suffix : suffixes) {
      Line(absl::StrCat(CType(k_.accumulators[a].dtype), " r", a, suffix, " = ", Identity(a), ";"));
    }
  }
}

void SimdFolds::FoldPart(const Piece& piece, const std::string& to, const std::string& from) {
  for (const auto& [a, value] : piece.accumulations) Fold(a, absl::StrCat("r", a, from), "r", to);
}

std::string SimdFolds::EmitCopies(const Loop& loop, const Piece& piece, int copies, const std::string& begin,
                                  const std::string& end, const std::function<void(const std::string&)>& body) {
  const std::string all = "jn" + loop.var, part = "jp" + loop.var;
  std::string rest = "jt" + loop.var;
  Line(absl::StrCat("const long ", all, " = ((", end, ") - (", begin, ")) / ", 16 * copies, " * 16;"));
  // Not a multiple of a kilobyte of f32: the parts would meet in few sets of the cache.
  Line(absl::StrCat("const long ", part, " = ", all, " & 255 ? ", all, " : ", all, " > 16 ? ", all, " - 16 : 0;"));
  std::vector<std::string> suffixes;
  for (int c = 0; c < copies; ++c) suffixes.push_back(Suffix(c));
  DeclareParts(piece, suffixes);
  EmitSimd(piece, suffixes);
  Open(absl::StrCat("for (long jc = 0; jc < ", part, "; ++jc)"));
  for (int c = 0; c < copies; ++c) {
    Open("");
    Line(absl::StrCat("const long ", loop.var, " = ", begin, " + jc + ", c, "L * ", part, ";"));
    body(Suffix(c));
    Close();
  }
  Close();
  for (int step = 1; step < copies; step *= 2) {  // pair by pair
    for (int c = 0; c + step < copies; c += 2 * step) FoldPart(piece, Suffix(c), Suffix(c + step));
  }
  FoldPart(piece, "", Suffix(0));
  Line(absl::StrCat("const long ", rest, " = ", begin, " + ", copies, "L * ", part, ";"));
  return rest;
}

}  // namespace preheat::codegen
