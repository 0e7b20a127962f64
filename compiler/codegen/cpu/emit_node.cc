#include "compiler/codegen/cpu/emit_node.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cpu/math_functions.h"
#include "compiler/codegen/cuda/cuda_math.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/schedule/access.h"
#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

namespace {

constexpr char kSymbol[] = "PREHEAT_KERNEL";
constexpr int kColumns = 64;  // of a put_rows item on a CPU

// An operand or result as the kernel addresses it.
struct Array {
  std::string constant;  // not empty: every element is that, and there is no buffer
  int buffer = 0;
  DType dtype = DType::kF32;
  std::vector<Expr> shape, strides;
  Expr offset;
};

class NodeEmitter {
 public:
  NodeEmitter(const schedule::Region& region, const StridesFn& strides_of, const ir::Ranges& sizes, Kernel& loops,
              DeviceKind device)
      : node_(*region.outputs[0].node),
        strides_of_(strides_of),
        sizes_(sizes),
        loops_(loops),
        cuda_(device == DeviceKind::kCuda),
        columns_(cuda_ ? 1 : kColumns) {}

  absl::StatusOr<EmittedKernel> Run() {
    for (size_t i = 0; i < node_.operands().size(); ++i)
      operands_.push_back(OperandArray(node_.operand(static_cast<int>(i))));
    for (size_t i = 0; i < node_.results().size(); ++i)
      results_.push_back(ResultArray(node_.result(static_cast<int>(i))));
    switch (node_.op()) {
      case Op::kScatter: Scatter(); break;
      case Op::kPutRows: PutRows(); break;
      case Op::kSort: Sort(); break;
      default: Scan(); break;
    }
    return Finish();
  }

 private:
  int Buffer(Value value, bool written) {
    auto [it, fresh] = buffers_.try_emplace({value, written}, static_cast<int>(loops_.buffers.size()));
    if (fresh) loops_.buffers.push_back({value, value.dtype(), written});
    return it->second;
  }

  Array OperandArray(Value value) {
    bool puts = node_.op() == Op::kPutRows || node_.op() == Op::kScatter;
    if (puts && value.node->op() == Op::kFill && value == node_.operand(0) && value != node_.operand(2)) {
      return {ConstantText(value.node->ScalarAttr("value"), value.dtype()),
              0,
              value.dtype(),
              value.shape(),
              ir::RowMajorStrides(value.shape()),
              Expr(0)};
    }
    auto view = schedule::PeelViews(value, strides_of_, sizes_);
    if (!view) return {"", Buffer(value, false), value.dtype(), value.shape(), strides_of_(value), Expr(0)};
    return {"", Buffer(view->base, false), value.dtype(), value.shape(), view->strides, view->offset};
  }
  Array ResultArray(Value value) {
    return {"", Buffer(value, true), value.dtype(), value.shape(), strides_of_(value), Expr(0)};
  }

  // --- Spelling ---

  std::string Text(const Expr& e) {
    for (const std::string& s : e.Symbols()) {
      if (!locals_.count(s)) symbols_.insert(s);
    }
    return absl::StrCat("(",
                        IndexText(
                            e, [](const std::string& s) { return s; }, math_),
                        ")");
  }
  Expr Local(const std::string& name) {
    locals_.insert(name);
    return Expr::Symbol(name);
  }
  void Line(const std::string& text) { absl::StrAppend(&body_, std::string(2 * indent_, ' '), text, "\n"); }
  void Open(const std::string& text) {
    Line(text + " {");
    ++indent_;
  }
  void Close() {
    --indent_;
    Line("}");
  }
  void Loop(const std::string& var, const Expr& size) {
    Local(var);
    Open(absl::StrCat("for (long ", var, " = 0; ", var, " < ", Text(size), "; ++", var, ")"));
  }

  std::string Element(const Array& a, const std::vector<Expr>& index) {
    Expr at = a.offset;
    for (size_t i = 0; i < index.size(); ++i) at = at + index[i] * a.strides[i];
    return absl::StrCat("b", a.buffer, "[", Text(at), "]");
  }
  std::string Load(const Array& a, const std::vector<Expr>& index) {
    return a.constant.empty() ? LoadText(Element(a, index), a.dtype, math_) : a.constant;
  }
  void Store(const Array& a, const std::vector<Expr>& index, const std::string& value) {
    Line(absl::StrCat(Element(a, index), " = ", StoreText(value, a.dtype, a.dtype, math_), ";"));
  }

  void OpenItemLoop() {
    Open(absl::StrCat("for (long item = begin; item < end; ", cuda_ ? "item += step)" : "++item)"));
  }

  // Opens the loop over items that run through `dims` of `shape`, and defines i<d> for each.
  std::vector<Expr> OpenItems(const std::vector<Expr>& shape, const std::vector<size_t>& dims) {
    std::vector<Expr> index(shape.size(), Expr(0));
    OpenItemLoop();
    Line("long q = item;");
    loops_.extent = 1;
    for (size_t k = dims.size(); k-- > 0;) {
      size_t d = dims[k];
      std::string var = absl::StrCat("i", d);
      index[d] = Local(var);
      Line(absl::StrCat("const long ", var, " = q % ", Text(shape[d]), ";"));
      Line(absl::StrCat("q /= ", Text(shape[d]), ";"));
      loops_.extent = loops_.extent * shape[d];
    }
    Line("(void)q;");
    return index;
  }

  static std::vector<size_t> AllBut(size_t rank, size_t dim) {
    std::vector<size_t> dims;
    for (size_t d = 0; d < rank; ++d) {
      if (d != dim) dims.push_back(d);
    }
    return dims;
  }

  size_t Dim() const { return static_cast<size_t>(node_.Int("dim")); }

  // The type that sums and products are kept in, as eager keeps them.
  static DType Accumulated(DType dtype) { return ir::IsFloat(dtype) ? DType::kF64 : dtype; }

  // a := a <reduce> b, both in computed type `dtype`.
  std::string Reduced(const std::string& reduce, const std::string& a, const std::string& b, DType dtype) {
    if (reduce == "add") return OpText(Op::kAdd, {a, b}, dtype, dtype, math_);
    if (reduce == "mul") return OpText(Op::kMul, {a, b}, dtype, dtype, math_);
    if (reduce == "max") return OpText(Op::kMax, {a, b}, dtype, dtype, math_);
    if (reduce == "min") return OpText(Op::kMin, {a, b}, dtype, dtype, math_);
    return b;
  }

  // --- Kernels ---

  void Scan() {
    const Array &x = operands_[0], &y = results_[0];
    size_t dim = Dim();
    if (x.shape.empty()) return CopyScalar(x, y);
    bool extreme = node_.op() == Op::kScanMax || node_.op() == Op::kScanMin;
    DType kept = extreme ? x.dtype : Accumulated(x.dtype);
    std::vector<Expr> index = OpenItems(x.shape, AllBut(x.shape.size(), dim));
    const char* reduce = node_.op() == Op::kScanSum    ? "add"
                         : node_.op() == Op::kScanProd ? "mul"
                         : node_.op() == Op::kScanMax  ? "max"
                                                       : "min";
    Op identity = node_.op() == Op::kScanSum    ? Op::kReduceSum
                  : node_.op() == Op::kScanProd ? Op::kReduceProd
                  : node_.op() == Op::kScanMax  ? Op::kReduceMax
                                                : Op::kReduceMin;
    Line(absl::StrCat(std::string(CType(kept)), " acc = ", IdentityText(identity, kept), ";"));
    Loop("j", x.shape[dim]);
    index[dim] = Expr::Symbol("j");
    Line(absl::StrCat("acc = ", Reduced(reduce, "acc", CastText(Load(x, index), x.dtype, kept, math_), kept), ";"));
    Store(y, index, CastText("acc", kept, Computed(y.dtype), math_));
    Close();
    Close();
    loops_.work = x.shape[dim];
  }

  static DType Computed(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16 ? DType::kF32 : dtype; }

  void CopyScalar(const Array& x, const Array& y) {
    OpenItemLoop();
    Store(y, {}, Load(x, {}));
    Close();
    loops_.extent = 1, loops_.work = 1;
  }

  // The checked index in `at`, of an array of n; false leaves it alone and reports.
  void CheckIndex(const std::string& value, const Expr& n, int site) {
    Line(absl::StrCat("long at = ", value, ";"));
    Line(absl::StrCat("at = at < 0 ? at + ", Text(n), " : at;"));
    Line(absl::StrCat("if ((unsigned long)at >= (unsigned long)", Text(n), ") { bad = ", site, "; continue; }"));
    Local("at");
    checks_ = true;
  }

  void Scatter() {
    const Array &x = operands_[0], &index = operands_[1], &src = operands_[2], &y = results_[0];
    size_t dim = x.shape.empty() ? 0 : Dim(), rank = x.shape.size();
    std::vector<Expr> at = OpenItems(x.shape, AllBut(rank, dim));
    std::vector<Expr> line = at;
    if (rank) {
      Loop("j", x.shape[dim]);
      line[dim] = Expr::Symbol("j");
    }
    Store(y, line, Load(x, line));
    if (rank) Close();
    std::vector<std::string> inside;
    for (size_t d = 0; d < index.shape.size(); ++d) {
      if (d != dim && index.shape[d] != x.shape[d])
        inside.push_back(absl::StrCat(Text(at[d]), " < ", Text(index.shape[d])));
    }
    if (!inside.empty()) Open(absl::StrCat("if (", absl::StrJoin(inside, " && "), ")"));
    Expr count = index.shape.empty() ? Expr(1) : index.shape[dim];
    Loop("k", count);
    std::vector<Expr> from(index.shape.size());
    for (size_t d = 0; d < from.size(); ++d) from[d] = d == dim ? Expr::Symbol("k") : at[d];
    CheckIndex(CastText(Load(index, from), index.dtype, DType::kI64, math_), rank ? x.shape[dim] : Expr(1),
               static_cast<int>(ErrorSite::kScatter));
    std::vector<Expr> to = at;
    if (rank) to[dim] = Expr::Symbol("at");
    std::vector<Expr> src_index(src.shape.size());
    for (size_t d = 0; d < src_index.size(); ++d) src_index[d] = from.size() == src_index.size() ? from[d] : Expr(0);
    Store(y, to, Reduced(node_.String("reduce"), Load(y, to), Load(src, src_index), y.dtype));
    Close();
    if (!inside.empty()) Close();
    Close();
    loops_.work = (rank ? x.shape[dim] : Expr(1)) + count;
  }

  // Columns behind `dim`, taken together when they lie densely in all three arrays.
  void PutRows() {
    const Array &x = operands_[0], &index = operands_[1], &src = operands_[2], &y = results_[0];
    size_t dim = Dim(), index_rank = index.shape.size(), rank = x.shape.size();
    std::vector<Expr> columns(x.shape.begin() + dim + 1, x.shape.end());
    Expr count = ir::NumElements(columns);
    std::vector<size_t> before;
    for (size_t d = 0; d < dim; ++d) before.push_back(d);
    std::vector<Expr> item_shape(x.shape.begin(), x.shape.begin() + dim);
    item_shape.push_back(Expr::CeilDiv(count, columns_));
    before.push_back(dim);
    std::vector<Expr> item = OpenItems(item_shape, before);
    Line(absl::StrCat("const long c0 = i", dim, " * ", columns_, ";"));
    Line(absl::StrCat("const long cn = ", Text(count), " - c0 < ", columns_, " ? ", Text(count), " - c0 : ", columns_,
                      ";"));
    Local("c");
    ir::Ranges ranges = sizes_;
    ranges.Set("c", 0, count - 1);
    schedule::Index column = schedule::Unflatten(Expr::Symbol("c"), columns, ranges);
    bool dense = Dense(x, dim + 1) && Dense(y, dim + 1) && Dense(src, dim + index_rank);
    auto full = [&](const Array& a, const std::vector<Expr>& row) {
      std::vector<Expr> at(item.begin(), item.begin() + dim);
      at.insert(at.end(), row.begin(), row.end());
      if (dense) {
        Expr base = a.offset + Expr::Symbol("c");
        for (size_t i = 0; i < at.size(); ++i) base = base + at[i] * a.strides[i];
        return absl::StrCat("b", a.buffer, "[", Text(base), "]");
      }
      at.insert(at.end(), column.begin(), column.end());
      return Element(a, at);
    };
    auto for_columns = [&](const std::function<void()>& body) {
      if (!cuda_) Line("#pragma omp simd");
      Open("for (long ci = 0; ci < cn; ++ci)");
      Line("const long c = c0 + ci;");
      body();
      Close();
    };
    Loop("j", x.shape[dim]);
    for_columns([&] {
      Line(absl::StrCat(
          full(y, {Expr::Symbol("j")}), " = ",
          StoreText(x.constant.empty() ? LoadText(full(x, {Expr::Symbol("j")}), x.dtype, math_) : x.constant, y.dtype,
                    y.dtype, math_),
          ";"));
    });
    Close();
    Expr rows = ir::NumElements(index.shape);
    Loop("k", rows);
    ranges.Set("k", 0, rows - 1);
    schedule::Index k = schedule::Unflatten(Expr::Symbol("k"), index.shape, ranges);
    CheckIndex(CastText(Load(index, k), index.dtype, DType::kI64, math_), x.shape[dim],
               static_cast<int>(ErrorSite::kPutRows));
    for_columns([&] {
      std::string to = full(y, {Expr::Symbol("at")});
      std::string value = Reduced(node_.String("reduce"), LoadText(to, y.dtype, math_),
                                  LoadText(full(src, k), src.dtype, math_), y.dtype);
      Line(absl::StrCat(to, " = ", StoreText(value, y.dtype, y.dtype, math_), ";"));
    });
    Close();
    Close();
    (void)rank;
    loops_.work = (x.shape[dim] + rows) * Expr(columns_);
  }

  // Row-major from dimension `from` on.
  static bool Dense(const Array& a, size_t from) {
    Expr stride(1);
    for (size_t d = a.shape.size(); d-- > from;) {
      if (a.shape[d] != Expr(1) && a.strides[d] != stride) return false;
      stride = stride * a.shape[d];
    }
    return true;
  }

  // Bottom-up stable merge sort of (key, position) pairs in this thread's scratch.
  void Sort() {
    const Array &x = operands_[0], &values = results_[0], &positions = results_[1];
    bool scalar = x.shape.empty();
    size_t dim = scalar ? 0 : Dim();
    Expr n = scalar ? Expr(1) : x.shape[dim];
    std::string key(CType(x.dtype)), count = Text(n);
    std::vector<Expr> index = OpenItems(x.shape, AllBut(x.shape.size(), dim));
    Line(absl::StrCat("const long n = ", count, ";"));
    Line(absl::StrCat("long* pa = (long*)", cuda_ ? "own" : "args->scratch", "; long* pb = pa + n;"));
    Line(absl::StrCat(key, "* ka = (", key, "*)(pb + n); ", key, "* kb = ka + n;"));
    Loop("j", n);
    if (!scalar) index[dim] = Expr::Symbol("j");
    Line(absl::StrCat("ka[j] = ", Load(x, index), "; pa[j] = j;"));
    Close();
    Open("for (long w = 1; w < n; w *= 2)");
    Open("for (long lo = 0; lo < n; lo += 2 * w)");
    Line("const long mid = lo + w < n ? lo + w : n, hi = lo + 2 * w < n ? lo + 2 * w : n;");
    Line("long l = lo, r = mid;");
    Open("for (long o = lo; o < hi; ++o)");
    Line(absl::StrCat("const bool right = r < hi && (l >= mid || (", Before("ka[r]", "ka[l]", x.dtype), "));"));
    Line("const long from = right ? r++ : l++;");
    Line("kb[o] = ka[from]; pb[o] = pa[from];");
    Close();
    Close();
    Line(absl::StrCat("{ ", key, "* t = ka; ka = kb; kb = t; long* u = pa; pa = pb; pb = u; }"));
    Close();
    Loop("m", n);
    if (!scalar) index[dim] = Expr::Symbol("m");
    Store(values, index, "ka[m]");
    Store(positions, index, "pa[m]");
    Close();
    Close();
    loops_.work = n * Expr(16);
    loops_.scratch_bytes = n * Expr(2 * (8 + std::max<int64_t>(4, ir::DTypeSize(x.dtype)))) + Expr(64);
  }

  std::string Before(const std::string& a, const std::string& b, DType dtype) const {
    bool descending = node_.Int("descending") != 0;
    const std::string &less = descending ? b : a, &more = descending ? a : b;
    std::string text = absl::StrCat(less, " < ", more);
    if (ir::IsFloat(dtype)) absl::StrAppend(&text, " || (", more, " != ", more, " && ", less, " == ", less, ")");
    return text;
  }

  absl::StatusOr<EmittedKernel> Finish() {
    loops_.symbols.assign(symbols_.begin(), symbols_.end());
    loops_.checks_indices = checks_;
    std::string body =
        absl::StrCat(cuda_ ? CudaHead() : CpuHead(), checks_ ? "  int bad = 0;\n" : "", body_,
                     checks_ ? absl::StrCat("  if (bad) *", cuda_ ? "" : "args->", "error = bad;\n") : "", "}\n");
    ASSIGN_OR_RETURN(std::string functions, cuda_ ? CudaMathSource(math_) : MathSource(math_));
    std::string source =
        cuda_ ? functions + body
              : absl::StrCat("struct Args { void* const* buffers; const long* scalars; int* error; void* scratch; };\n",
                             functions, body);
    if (cuda_) source = BuiltinsFor(source) + source;
    EmittedKernel emitted;
    emitted.symbol = absl::StrCat("preheat_", std::string(ir::Info(node_.op()).name), "_", Digest(source).substr(0, 8));
    emitted.source = absl::StrReplaceAll(source, {{kSymbol, emitted.symbol}});
    return emitted;
  }

  std::string BufferType(size_t b) const {
    return absl::StrCat(loops_.buffers[b].written ? "" : "const ", std::string(StorageType(loops_.buffers[b].dtype)));
  }

  std::string CpuHead() const {
    std::string head = absl::StrCat("extern \"C\" void ", kSymbol, "(const Args* args, long begin, long end) {\n");
    for (size_t b = 0; b < loops_.buffers.size(); ++b) {
      absl::StrAppend(&head, "  ", BufferType(b), "* __restrict b", b, " = (", BufferType(b), "*)args->buffers[", b,
                      "];\n");
    }
    for (size_t s = 0; s < loops_.symbols.size(); ++s) {
      absl::StrAppend(&head, "  const long ", loops_.symbols[s], " = args->scalars[", s, "];\n");
    }
    return head;
  }

  // Scratch is a thread's own, one after another.
  std::string CudaHead() {
    std::string head = absl::StrCat("extern \"C\" __global__ void ", kSymbol, "(");
    for (size_t b = 0; b < loops_.buffers.size(); ++b)
      absl::StrAppend(&head, BufferType(b), "* __restrict__ b", b, ", ");
    for (const std::string& symbol : loops_.symbols) absl::StrAppend(&head, "const long ", symbol, ", ");
    absl::StrAppend(&head, "int* error, char* scratch, const long end) {\n  const long begin = (long)blockIdx.x * ",
                    kCudaNodeThreads, " + threadIdx.x, step = (long)gridDim.x * ", kCudaNodeThreads, ";\n");
    if (loops_.scratch_bytes != Expr(0))
      absl::StrAppend(&head, "  char* own = scratch + begin * (", Text(loops_.scratch_bytes), " / 64 * 64);\n");
    return head;
  }

  const Node& node_;
  const StridesFn& strides_of_;
  const ir::Ranges& sizes_;
  Kernel& loops_;
  std::map<std::pair<Value, bool>, int> buffers_;
  std::vector<Array> operands_, results_;
  std::set<std::string> math_, symbols_, locals_;
  std::string body_;
  int indent_ = 1;
  bool checks_ = false;
  const bool cuda_;
  const int columns_;  // of a put_rows item
};

}  // namespace

absl::StatusOr<EmittedKernel> EmitNode(const schedule::Region& region, const StridesFn& strides_of,
                                       const ir::Ranges& sizes, Kernel& loops, DeviceKind device) {
  return NodeEmitter(region, strides_of, sizes, loops, device).Run();
}

}  // namespace preheat::codegen
