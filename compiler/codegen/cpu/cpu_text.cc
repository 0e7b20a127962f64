#include "compiler/codegen/cpu/cpu_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/cpu/math_functions.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/support/status_macros.h"

namespace preheat::codegen {

using ir::Op;

// --- The kernel's frame ---

void CpuText::OpenKernel() {
  Open(absl::StrCat("extern \"C\" void ", kSymbol, "(const Args* args, long begin, long end)"));
  std::vector<bool> alone(k_.buffers.size(), true);
  for (const InPlace& pair : k_.in_place) alone[pair.written] = alone[pair.read] = false;
  for (size_t b = 0; b < k_.buffers.size(); ++b) {
    const std::string type = BufferType(b);
    Line(absl::StrCat(type, "* ", alone[b] ? "__restrict " : "", "b", b, " = (", type, "*)args->buffers[", b, "];"));
  }
  for (size_t s = 0; s < k_.symbols.size(); ++s) {
    Line(absl::StrCat("const long ", k_.symbols[s], " = args->scalars[", s, "];"));
  }
  for (size_t t = 0; t < k_.scratch.size(); ++t) {
    const absl::string_view type = CType(k_.scratch[t].dtype);
    Line(absl::StrCat(type, "* __restrict t", t, " = (", type, "*)((char*)args->scratch + ",
                      Index(k_.scratch[t].offset), ");"));
  }
  if (k_.checks) Line("int bad = 0;");
}

void CpuText::OpenItems() { Open("for (long item = begin; item < end; ++item)"); }

void CpuText::DefineOuter() {
  for (size_t i = k_.outer.size(); i-- > 0;) {
    std::string size = absl::StrCat("(", Index(k_.outer[i].size), ")");
    Line(absl::StrCat("const long ", k_.outer[i].var, " = ", i ? absl::StrCat("q % ", size) : "q", ";"));
    if (i) Line(absl::StrCat("q /= ", size, ";"));
  }
}

void CpuText::CloseKernel() {
  Close();
  if (k_.checks) Line("if (bad) *args->error = bad;");
  Close();
}

absl::StatusOr<EmittedKernel> CpuText::Finish() {
  ASSIGN_OR_RETURN(std::string functions, MathSource(math_));
  return NamedKernel(OpsName(k_),
                     absl::StrCat(TargetPragma(), kArgsStruct, functions, helpers_, DeclaredReductions(), text()));
}

// g++ before 14 may turn a masked load of AVX-512 into a whole load and a blend (its bug 110309), and the bytes behind
// a tensor need not be there: loads that depend on a condition are left to AVX2, whose masked loads stay what they are.
std::string CpuText::TargetPragma() const {
  std::vector<std::string> options;
  const bool masked = std::any_of(k_.stmts.begin(), k_.stmts.end(), [](const Stmt& s) {
    return s.kind == Stmt::Kind::kLoad && s.predicate >= 0 && s.depth > 0;
  });
  if (masked) options.push_back("no-avx512f");
  if (k_.width > 0 && !masked) options.push_back(absl::StrCat("prefer-vector-width=", k_.width));
  return options.empty() ? "" : absl::StrCat("#pragma GCC target(\"", absl::StrJoin(options, ","), "\")\n");
}

// "phr_max_f32" and the like for the folds that `#pragma omp simd` does not know; SimdFolds names them.
std::string CpuText::DeclaredReductions() const {
  std::set<std::string> lines;
  for (const Accumulator& a : k_.accumulators) {
    if (!ir::IsFloat(a.dtype) || (a.op != Op::kReduceMax && a.op != Op::kReduceMin)) continue;
    std::string f = absl::StrCat(a.op == Op::kReduceMax ? "max_" : "min_", ir::DTypeName(a.dtype));
    lines.insert(absl::StrCat("#pragma omp declare reduction(phr_", f, " : ", CType(a.dtype), " : omp_out = ph_", f,
                              "(omp_out, omp_in)) initializer(omp_priv = ", IdentityText(a.op, a.dtype), ")\n"));
  }
  return absl::StrJoin(lines, "");
}

// --- Statements ---

std::string CpuText::Ref(int s) const {
  const Stmt& stmt = k_.stmts[s];
  if (stmt.kind != Stmt::Kind::kResult) return absl::StrCat("v", s);
  return absl::StrCat("r", stmt.accumulator, IsArg(k_.accumulators[stmt.accumulator].op) ? "i" : "");
}

void CpuText::Define(int s) {
  const Stmt& stmt = k_.stmts[s];
  if (stmt.kind == Stmt::Kind::kResult) return;
  Line(absl::StrCat("const ", TypeName(s), " v", s, " = ", Value(stmt), ";"));
  if (stmt.error_site != 0) Line(absl::StrCat("bad |= (", Failure(stmt), ") ? ", stmt.error_site, " : 0;"));
}

void CpuText::OpenLoop(const Loop& loop, absl::string_view begin, absl::string_view end) {
  Open(absl::StrCat("for (long ", loop.var, " = ", begin, "; ", loop.var, " < ", end, "; ++", loop.var, ")"));
}

// --- Reductions ---

void CpuText::Fold(int a, const std::string& v, absl::string_view prefix, absl::string_view suffix) {
  if (IsArg(k_.accumulators[a].op)) return FoldPosition(a, v, suffix);
  Line(FoldStatement(a, absl::StrCat(prefix, a, suffix), v));
}

void CpuText::FoldPosition(int a, const std::string& v, absl::string_view suffix) {
  const Accumulator& accumulator = k_.accumulators[a];
  std::string r = absl::StrCat("r", a, suffix), i = absl::StrCat("r", a, "i", suffix);
  std::string better = absl::StrCat("(", v, accumulator.op == Op::kArgMax ? " > " : " < ", r, ")");
  if (ir::IsFloat(accumulator.dtype)) {
    absl::StrAppend(&better, " | ((", v, " != ", v, ") & (", r, " == ", r, "))");
  }
  Line(absl::StrCat("const bool better", a, " = ", better, ";"));
  Line(absl::StrCat(r, " = better", a, " ? ", v, " : ", r, ";"));
  Line(absl::StrCat(i, " = better", a, " ? (", Index(accumulator.position), ") : ", i, ";"));
}

}  // namespace preheat::codegen
