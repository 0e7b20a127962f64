#include "compiler/codegen/cuda/emit_put_rows.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cuda/cuda_node_text.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;

namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kSharedBytes = 32 << 10;  // of what a block keeps

// $CX columns by $CY rows of threads; a thread keeps $R rows, one column of each.
constexpr char kBody[] = R"(
  __shared__ $A kept[$R * 256];
  __shared__ int places[1024], hits[1024], counts[32];
  const int x = threadIdx.x % $CX, y = threadIdx.x / $CX, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const long columns = $COLUMNS, rows = $ROWS, count = $COUNT;
  const long column_tiles = (columns + $CX - 1) / $CX, row_tiles = (rows + $R * $CY - 1) / ($R * $CY);
  long q = blockIdx.x;
  const long c0 = q % column_tiles * $CX + x;
  q /= column_tiles;
  const long r0 = q % row_tiles * ($R * $CY);
  q /= row_tiles;
$BEFORE  (void)q;
  const bool live = c0 < columns;
  const long c = live ? c0 : columns - 1;
  const long left = rows - r0;
  const int mine = left < $R * $CY ? (int)left : $R * $CY;
  int bad = 0;
  for (int r = y; r < mine; r += $CY) {
    const long j = r0 + r;
    (void)j;
    kept[r / $CY * 256 + threadIdx.x] = $X;
  }
  for (long k0 = 0; k0 < count; k0 += 1024) {
    int found[4];
    unsigned masks[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      const long k = k0 + i * 256 + threadIdx.x;
      found[i] = -1;
      if (k < count) {
        long at = $INDEX;
$FROM_END        if ((unsigned long)at >= (unsigned long)rows) bad = $SITE;
        else if (at >= r0 && at < r0 + mine) found[i] = (int)(at - r0);
      }
      masks[i] = __ballot_sync(0xffffffffu, found[i] >= 0);
      if (lane == 0) counts[i * 8 + warp] = __popc(masks[i]);
    }
    __syncthreads();
    int total = 0;
    #pragma unroll
    for (int w = 0; w < 32; ++w) total += counts[w];
    if (total > 0) {
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (found[i] < 0) continue;
        int to = __popc(masks[i] & ((1u << lane) - 1u));
        for (int w = 0; w < i * 8 + warp; ++w) to += counts[w];
        places[to] = i * 256 + threadIdx.x;
        hits[to] = found[i];
      }
      __syncthreads();
      for (int m0 = 0; m0 < total; m0 += 8) {
        $A next[8];
        #pragma unroll
        for (int m = 0; m < 8; ++m) {
          if (m0 + m >= total || hits[m0 + m] % $CY != y) continue;
          const long k = k0 + places[m0 + m];
          next[m] = $SRC;
        }
        #pragma unroll
        for (int m = 0; m < 8; ++m) {
          if (m0 + m >= total || hits[m0 + m] % $CY != y) continue;
          $A* to = kept + hits[m0 + m] / $CY * 256 + threadIdx.x;
          *to = $REDUCED;
        }
      }
    }
    __syncthreads();
  }
  if (live) {
    for (int r = y; r < mine; r += $CY) {
      const long j = r0 + r;
      const $A value = kept[r / $CY * 256 + threadIdx.x];
      $Y = $STORED;
    }
  }
  if (bad) *error = bad;
)";

class PutRowsEmitter : public CudaNodeText {
 public:
  using CudaNodeText::CudaNodeText;

  absl::StatusOr<CudaKernel> Run() {
    const NodeArray x = FilledOrOperand(0), index = FilledOrOperand(1), src = FilledOrOperand(2), y = Result(0);
    const size_t dim = this->dim();
    const std::vector<Expr> columns(x.shape.begin() + dim + 1, x.shape.end());
    const Expr count = ir::NumElements(index.shape), width = ir::NumElements(columns), rows = x.shape[dim];
    for (const char* local : {"c", "k", "j"}) Local(local);
    ir::Ranges ranges = sizes();
    ranges.Set("c", 0, width - 1);
    ranges.Set("k", 0, count - 1);
    const schedule::Index column = schedule::Unflatten(Expr::Symbol("c"), columns, ranges);
    const schedule::Index place = schedule::Unflatten(Expr::Symbol("k"), index.shape, ranges);
    schedule::Index before;
    Expr items(1);
    std::string text;
    for (size_t d = dim; d-- > 0;) {
      text += DefineFromQ(d, x.shape[d]);
      items = items * x.shape[d];
    }
    for (size_t d = 0; d < dim; ++d) before.push_back(Expr::Symbol(absl::StrCat("i", d)));
    auto at = [&](const schedule::Index& row) {
      schedule::Index all = before;
      all.insert(all.end(), row.begin(), row.end());
      all.insert(all.end(), column.begin(), column.end());
      return all;
    };
    const DType dtype = y.dtype;
    const std::string type = dtype == DType::kBool ? "unsigned char" : std::string(CType(dtype));
    const int64_t across = Across(width), down = kThreads / across;
    const int64_t each = kSharedBytes / kThreads / (ir::DTypeSize(dtype) == 8 ? 8 : 4);
    const std::vector<std::pair<std::string, std::string>> fields = {
        {"$A", type},
        {"$R", absl::StrCat(each)},
        {"$CX", absl::StrCat(across)},
        {"$CY", absl::StrCat(down)},
        {"$COLUMNS", Text(width)},
        {"$ROWS", Text(rows)},
        {"$COUNT", Text(count)},
        {"$BEFORE", text},
        {"$X", Load(x, at({Expr::Symbol("j")}))},
        {"$INDEX", CastText(Load(index, place), index.dtype, DType::kI64, math())},
        {"$FROM_END", node().CountsFromEnd() ? "        at = at < 0 ? at + rows : at;\n" : ""},
        {"$SITE", absl::StrCat(static_cast<int>(ErrorSite::kPutRows))},
        {"$SRC", Load(src, at(place))},
        {"$REDUCED", Reduced(node().String("reduce"), "*to", "next[m]", dtype)},
        {"$Y", Element(y, at({Expr::Symbol("j")}))},
        {"$STORED", Converted("value", dtype)}};
    kernel().checks = true;
    kernel().extent = items * Expr::CeilDiv(width, Expr(across)) * Expr::CeilDiv(rows, Expr(each * down));
    return Finish(absl::StrReplaceAll(kBody, fields), kThreads);
  }

 private:
  // Threads side by side: as many as there are columns, up to all of them.
  static int64_t Across(const Expr& columns) {
    int64_t across = 1;
    while (across < kThreads && across < columns.constant().value_or(kThreads)) across *= 2;
    return across;
  }
};

}  // namespace

absl::StatusOr<CudaKernel> EmitPutRows(const schedule::Region& region, const StridesFn& strides_of,
                                       const ir::Ranges& sizes, Kernel& loops) {
  return PutRowsEmitter(region, strides_of, sizes, loops).Run();
}

}  // namespace preheat::codegen
