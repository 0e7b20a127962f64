#include "compiler/capture/views.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

using ir::Expr;

const std::set<std::string>& PlainViews() {
  static const auto* names = new std::set<std::string>{"aten.select.int",
                                                       "aten.slice.Tensor",
                                                       "aten.view.default",
                                                       "aten.permute.default",
                                                       "aten.transpose.int",
                                                       "aten.t.default",
                                                       "aten.expand.default",
                                                       "aten.unsqueeze.default",
                                                       "aten.squeeze.default",
                                                       "aten.squeeze.dim",
                                                       "aten.squeeze.dims",
                                                       "aten.diagonal.default",
                                                       "aten.narrow.default",
                                                       "aten.split.Tensor",
                                                       "aten.split.sizes",
                                                       "aten.split.default",
                                                       "aten.chunk.default",
                                                       "aten.unbind.int",
                                                       "aten.unflatten.int",
                                                       "aten.as_strided.default",
                                                       "aten.movedim.int",
                                                       "aten.movedim.intlist",
                                                       "aten.swapaxes.default",
                                                       "aten.swapdims.default",
                                                       "aten.view_as.default",
                                                       "aten.expand_as.default",
                                                       "aten.numpy_T.default",
                                                       "aten.mT.default",
                                                       "aten.split_with_sizes.default",
                                                       "aten._reshape_alias.default",
                                                       "aten.unfold.default",
                                                       "aten.broadcast_to.default",
                                                       "aten.moveaxis.int",
                                                       "aten.moveaxis.intlist",
                                                       "aten.tensor_split.sections",
                                                       "aten.tensor_split.indices",
                                                       "aten.view.dtype",
                                                       "aten.view_as_real.default",
                                                       "aten.view_as_complex.default",
                                                       "aten.real.default",
                                                       "aten.imag.default",
                                                       "aten.adjoint.default",
                                                       "aten.matrix_H.default",
                                                       "aten.hsplit.int",
                                                       "aten.vsplit.int",
                                                       "aten.dsplit.int"};
  return *names;
}

bool IsTrue(const AtenNode& node, const std::string& name) {
  const Argument* arg = node.Find(name);
  const bool* flag = arg == nullptr ? nullptr : std::get_if<bool>(arg);
  return flag != nullptr && *flag;
}

bool IsZero(const Argument* arg) {
  if (arg == nullptr) return false;
  if (const double* d = std::get_if<double>(arg)) return *d == 0;
  if (const Expr* e = std::get_if<Expr>(arg)) return *e == Expr(0);
  return false;
}

// Strides that differ only where the size is 1 describe the same memory.
bool SameLayout(const AtenType& a, const AtenType& b) {
  if (a.tensor.shape != b.tensor.shape || a.strides.size() != b.strides.size()) return false;
  for (size_t i = 0; i < a.strides.size(); ++i) {
    if (a.tensor.shape[i] != Expr(1) && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

bool IsRowMajor(const AtenType& type) {
  AtenType dense = type;
  dense.strides = ir::RowMajorStrides(type.tensor.shape);
  return SameLayout(type, dense);
}

// The runs of dimensions of `type` that lie densely one after another, as (elements, innermost stride),
// innermost run first; size-1 dimensions are left out.
std::vector<std::pair<Expr, Expr>> DenseRuns(const AtenType& type) {
  std::vector<std::pair<Expr, Expr>> runs;
  for (int i = type.tensor.rank() - 1; i >= 0; --i) {
    const Expr& size = type.tensor.shape[i];
    if (size == Expr(1)) continue;
    if (!runs.empty() && type.strides[i] == runs.back().first * runs.back().second) {
      runs.back().first = runs.back().first * size;
    } else {
      runs.emplace_back(size, type.strides[i]);
    }
  }
  return runs;
}

// Whether a reshape of `from` to `shape` needs no copy: each dense run must be covered by whole dimensions.
Aliasing ReshapeAliasing(const AtenType& from, const std::vector<Expr>& shape) {
  if (IsRowMajor(from)) return Aliasing::kView;
  std::vector<std::pair<Expr, Expr>> runs = DenseRuns(from);
  size_t run = 0;
  Expr covered = 1;
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) {
    if (*size == Expr(1)) continue;
    covered = covered * *size;
    if (run < runs.size() && covered == runs[run].first) {
      ++run;
      covered = 1;
      continue;
    }
    if (run >= runs.size()) return Aliasing::kUnknown;
    Expr rest = runs[run].first - covered;
    if (!rest.is_constant()) return Aliasing::kUnknown;
    if (*rest.constant() < 0) return Aliasing::kFresh;  // a dimension would span two runs
  }
  return run == runs.size() ? Aliasing::kView : Aliasing::kFresh;
}

Aliasing ToAliasing(const AtenType& from, const AtenType& to, const AtenNode& node) {
  if (IsTrue(node, "copy") || from.tensor.dtype != to.tensor.dtype || from.device_type != to.device_type)
    return Aliasing::kFresh;
  return SameLayout(from, to) ? Aliasing::kSame : Aliasing::kFresh;
}

absl::Status NoInverse(const AtenNode& view) {
  return MakeError(absl::StatusCode::kUnimplemented, {.kind = "unsupported_mutation",
                                                      .message = absl::StrCat("the program writes through ", view.op,
                                                                              ", which cannot be turned into a value"),
                                                      .where = view.op,
                                                      .fix = "write to the tensor itself, or compute a new one"});
}

NamedArgument Arg(std::string name, Argument value) {
  return {.name = std::move(name), .value = std::move(value), .keyword = false};
}

AtenNode Reshaped(const AtenProgram& program, int base, int written) {
  return {.op = "aten.reshape.default",
          .args = {Arg("self", ValueRef{written}), Arg("shape", program.values[base].type.tensor.shape)},
          .results = {}};
}

AtenNode Transposed(int written, int64_t a, int64_t b) {
  return {.op = "aten.transpose.int",
          .args = {Arg("self", ValueRef{written}), Arg("dim0", Expr(a)), Arg("dim1", Expr(b))},
          .results = {}};
}

// A scatter operator with the arguments of the view, from the second on.
AtenNode Scatter(std::string op, const AtenNode& view, int base, int written) {
  AtenNode node{
      .op = std::move(op), .args = {Arg("self", ValueRef{base}), Arg("src", ValueRef{written})}, .results = {}};
  for (size_t i = 1; i < view.args.size(); ++i) node.args.push_back(view.args[i]);
  return node;
}

AtenNode SliceScatter(int base, int written, const Expr& dim, const Expr& start, const Expr& end) {
  return {.op = "aten.slice_scatter.default",
          .args = {Arg("self", ValueRef{base}), Arg("src", ValueRef{written}), Arg("dim", dim), Arg("start", start),
                   Arg("end", end), Arg("step", Expr(1))},
          .results = {}};
}

Expr ExprOf(const AtenNode& node, const std::string& name, int64_t otherwise) {
  const Argument* arg = node.Find(name);
  const Expr* e = arg == nullptr ? nullptr : std::get_if<Expr>(arg);
  return e == nullptr ? Expr(otherwise) : *e;
}

// Part number `result` of a split begins where the parts before it end.
absl::StatusOr<AtenNode> SplitBack(const AtenProgram& program, const AtenNode& view, int result, int base,
                                   int written) {
  std::optional<int64_t> dim = ExprOf(view, "dim", 0).constant();
  int rank = program.values[base].type.tensor.rank();
  if (!dim) return NoInverse(view);
  int64_t at = *dim < 0 ? *dim + rank : *dim;
  if (at < 0 || at >= rank) return NoInverse(view);
  Expr start = 0;
  for (int i = 0; i < result; ++i) start = start + program.values[view.results[i]].type.tensor.shape[at];
  Expr end = start + program.values[view.results[result]].type.tensor.shape[at];
  return SliceScatter(base, written, Expr(at), start, end);
}

absl::StatusOr<AtenNode> PermuteBack(const AtenNode& view, int rank, int written) {
  const Argument* arg = view.Find("dims");
  const auto* dims = arg == nullptr ? nullptr : std::get_if<std::vector<Expr>>(arg);
  if (dims == nullptr || static_cast<int>(dims->size()) != rank) return NoInverse(view);
  std::vector<Expr> inverse(rank, Expr(0));
  for (int i = 0; i < rank; ++i) {
    int64_t from = (*dims)[i].constant().value_or(0);
    if (from < 0) from += rank;
    if (from < 0 || from >= rank) return NoInverse(view);
    inverse[from] = i;
  }
  return AtenNode{
      .op = "aten.permute.default", .args = {Arg("self", ValueRef{written}), Arg("dims", inverse)}, .results = {}};
}

absl::StatusOr<AtenNode> NarrowBack(const AtenProgram& program, const AtenNode& view, int base, int written) {
  const Argument* arg = view.Find("start");
  const Expr* start = arg == nullptr ? nullptr : std::get_if<Expr>(arg);
  if (start == nullptr) return NoInverse(view);
  Expr first = *start;
  Expr dim = ExprOf(view, "dim", 0);
  if (first.constant().value_or(0) < 0) {
    int64_t at = dim.constant().value_or(0);
    int rank = program.values[base].type.tensor.rank();
    if (at < 0) at += rank;
    if (at < 0 || at >= rank) return NoInverse(view);
    first = first + program.values[base].type.tensor.shape[at];
  }
  return SliceScatter(base, written, dim, first, first + ExprOf(view, "length", 0));
}

absl::StatusOr<AtenNode> TransposeBack(const AtenProgram& program, const AtenNode& view, int base, int written) {
  int rank = program.values[base].type.tensor.rank();
  if (view.op == "aten.mT.default") return Transposed(written, -1, -2);
  if (view.op == "aten.t.default") return rank == 2 ? Transposed(written, 0, 1) : Reshaped(program, base, written);
  if (view.op == "aten.numpy_T.default") {
    std::vector<Expr> dims;
    for (int i = rank - 1; i >= 0; --i) dims.emplace_back(i);
    return AtenNode{
        .op = "aten.permute.default", .args = {Arg("self", ValueRef{written}), Arg("dims", dims)}, .results = {}};
  }
  bool axes = view.op == "aten.swapaxes.default";
  std::optional<int64_t> a = ExprOf(view, axes ? "axis0" : "dim0", 0).constant();
  std::optional<int64_t> b = ExprOf(view, axes ? "axis1" : "dim1", 0).constant();
  if (!a || !b) return NoInverse(view);
  return Transposed(written, *a, *b);
}

}  // namespace

int FirstOperand(const AtenNode& node) {
  for (const NamedArgument& arg : node.args) {
    if (const ValueRef* ref = std::get_if<ValueRef>(&arg.value)) return ref->id;
  }
  return -1;
}

Aliasing AliasingOf(const AtenProgram& program, const AtenNode& node) {
  int operand = FirstOperand(node);
  if (operand < 0 || node.results.empty() || node.results[0] < 0) return Aliasing::kFresh;
  const AtenType& from = program.values[operand].type;
  const AtenType& to = program.values[node.results[0]].type;
  const std::string& op = node.op;
  if (PlainViews().count(op) != 0) return Aliasing::kView;
  if (op == "aten.detach.default" || op == "aten.alias.default" || op == "aten.detach_.default" ||
      op == "aten.lift_fresh.default") {
    return Aliasing::kSame;
  }
  if (op == "aten.dropout.default" || op == "aten.feature_dropout.default" || op == "aten.alpha_dropout.default" ||
      op == "aten.dropout_.default") {
    return !IsTrue(node, "train") || IsZero(node.Find("p")) ? Aliasing::kSame : Aliasing::kFresh;
  }
  if (op == "aten.reshape.default" || op == "aten.flatten.using_ints" || op == "aten.ravel.default") {
    return ReshapeAliasing(from, to.tensor.shape);
  }
  if (op.rfind("aten.to.", 0) == 0 || op == "aten.contiguous.default" || op == "aten.type_as.default")
    return ToAliasing(from, to, node);
  return Aliasing::kFresh;
}

absl::StatusOr<AtenNode> ScatterBack(const AtenProgram& program, const AtenNode& view, int result, int base,
                                     int written) {
  const std::string& op = view.op;
  const ir::TensorType& base_type = program.values[base].type.tensor;
  if (op == "aten.select.int") return Scatter("aten.select_scatter.default", view, base, written);
  if (op == "aten.slice.Tensor") return Scatter("aten.slice_scatter.default", view, base, written);
  if (op == "aten.diagonal.default") return Scatter("aten.diagonal_scatter.default", view, base, written);
  if (op == "aten.as_strided.default") return Scatter("aten.as_strided_scatter.default", view, base, written);
  if (op == "aten.narrow.default") return NarrowBack(program, view, base, written);
  if (op == "aten.permute.default") return PermuteBack(view, base_type.rank(), written);
  if (op == "aten.transpose.int" || op == "aten.t.default" || op == "aten.swapaxes.default" ||
      op == "aten.swapdims.default" || op == "aten.mT.default" || op == "aten.numpy_T.default") {
    return TransposeBack(program, view, base, written);
  }
  if (op == "aten.unbind.int") {
    AtenNode node = Scatter("aten.select_scatter.default", view, base, written);
    if (node.args.size() == 2) node.args.push_back(Arg("dim", Expr(0)));
    node.args.push_back(Arg("index", Expr(result)));
    return node;
  }
  if (op == "aten.split.Tensor" || op == "aten.split.sizes" || op == "aten.split.default" ||
      op == "aten.chunk.default" || op == "aten.split_with_sizes.default" || op == "aten.tensor_split.sections" ||
      op == "aten.tensor_split.indices") {
    return SplitBack(program, view, result, base, written);
  }
  if (op == "aten.view.default" || op == "aten.reshape.default" || op == "aten.flatten.using_ints" ||
      op == "aten.ravel.default" || op == "aten.unflatten.int" || op == "aten._reshape_alias.default" ||
      op == "aten.view_as.default" || op == "aten.unsqueeze.default" || op == "aten.squeeze.default" ||
      op == "aten.squeeze.dim" || op == "aten.squeeze.dims") {
    return Reshaped(program, base, written);
  }
  bool expands = op == "aten.expand.default" || op == "aten.expand_as.default" || op == "aten.broadcast_to.default";
  if (expands && program.values[view.results[0]].type.tensor.NumElements() == base_type.NumElements()) {
    return Reshaped(program, base, written);
  }
  return NoInverse(view);
}

}  // namespace preheat::capture
