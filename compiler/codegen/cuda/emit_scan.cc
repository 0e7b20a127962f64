#include "compiler/codegen/cuda/emit_scan.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cuda/cuda_node_text.h"
#include "compiler/codegen/emit_c.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kLongLine = 64, kManyLines = 16384;

// $A: what is kept; $JOIN(a, b): a before b.
constexpr char kBody[] = R"(
  __shared__ $A totals[8];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const long n = $N;
  long q = blockIdx.x;
$LINE  (void)q;
  $A carry = $IDENTITY;
  for (long j0 = 0; j0 < n; j0 += 1024) {
    $A own[4], sum = $IDENTITY;
    #pragma unroll
    for (int e = 0; e < 4; ++e) {
      const long j = j0 + threadIdx.x * 4 + e;
      const $A next = j < n ? $LOAD : $IDENTITY;
      sum = $SUM_NEXT;
      own[e] = sum;
    }
    $A upto = sum;
    #pragma unroll
    for (int m = 1; m < 32; m *= 2) {
      const $A below = __shfl_up_sync(0xffffffffu, upto, m);
      if (lane >= m) upto = $BELOW_UPTO;
    }
    if (lane == 31) totals[warp] = upto;
    __syncthreads();
    $A start = carry;
    #pragma unroll
    for (int w = 0; w < 8; ++w) {
      const $A total = totals[w];
      if (w < warp) start = $START_TOTAL;
      carry = $CARRY_TOTAL;
    }
    const $A below = __shfl_up_sync(0xffffffffu, upto, 1);
    if (lane > 0) start = $START_BELOW;
    #pragma unroll
    for (int e = 0; e < 4; ++e) {
      const long j = j0 + threadIdx.x * 4 + e;
      const $A value = $START_OWN;
      if (j < n) $STORE;
    }
    __syncthreads();
  }
)";

class ScanEmitter : public CudaNodeText {
 public:
  using CudaNodeText::CudaNodeText;

  absl::StatusOr<CudaKernel> Run() {
    const NodeArray x = FilledOrOperand(0), y = Result(0);
    const size_t dim = this->dim(), rank = x.shape.size();
    const ScanJoin join = JoinOf(node().op());
    const DType computed = ComputeType(x.dtype), result = ComputeType(y.dtype);
    const DType kept = ir::IsFloat(x.dtype) && !join.extreme ? DType::kF64 : computed;
    schedule::Index index(rank);
    std::string line;
    Expr lines(1);
    index[dim] = Local("j");
    for (size_t d = rank; d-- > 0;) {
      if (d == dim) continue;
      line += DefineFromQ(d, x.shape[d]);
      lines = lines * x.shape[d];
      index[d] = Expr::Symbol(absl::StrCat("i", d));
    }
    auto joined = [&](const std::string& a, const std::string& b) {
      return OpText(join.op, {a, b}, kept, kept, math());
    };
    const std::vector<std::pair<std::string, std::string>> fields = {
        {"$A", std::string(CType(kept))},
        {"$N", Text(x.shape[dim])},
        {"$LINE", line},
        {"$IDENTITY", IdentityText(join.identity, kept)},
        {"$LOAD", CastText(Load(x, index), computed, kept, math())},
        {"$SUM_NEXT", joined("sum", "next")},
        {"$BELOW_UPTO", joined("below", "upto")},
        {"$START_TOTAL", joined("start", "total")},
        {"$CARRY_TOTAL", joined("carry", "total")},
        {"$START_BELOW", joined("start", "below")},
        {"$START_OWN", joined("start", "own[e]")},
        {"$STORE", absl::StrCat(Element(y, index), " = ",
                                StoreText(CastText("value", kept, result, math()), result, y.dtype, math()))}};
    kernel().extent = lines;
    return Finish(absl::StrReplaceAll(kBody, fields), kThreads);
  }
};

}  // namespace

bool ScansByBlocks(const ir::Node& node) {
  if (node.op() < Op::kScanSum || node.op() > Op::kScanMin) return false;
  const ir::TensorType& type = node.operand(0).type();
  const bool wide = type.dtype != DType::kBool && (ir::IsFloat(type.dtype) || ir::DTypeSize(type.dtype) >= 4);
  if (type.shape.empty() || !wide) return false;
  const size_t dim = static_cast<size_t>(node.Int("dim"));
  const auto length = type.shape[dim].constant(), all = type.NumElements().constant();
  if (length && *length < kLongLine) return false;
  const bool innermost = dim + 1 == type.shape.size();
  return innermost || !length || !all || *length == 0 || *all / *length < kManyLines;
}

absl::StatusOr<CudaKernel> EmitScan(const schedule::Region& region, const StridesFn& strides_of,
                                    const ir::Ranges& sizes, Kernel& loops) {
  return ScanEmitter(region, strides_of, sizes, loops).Run();
}

}  // namespace preheat::codegen
