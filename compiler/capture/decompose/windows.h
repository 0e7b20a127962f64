#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_WINDOWS_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_WINDOWS_H_

#include <vector>

#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {

// The geometry of a pooling or sliding-window operator over the last `spatial` dimensions, one entry each.
struct Windows {
  int spatial = 0;
  std::vector<int64_t> kernel, stride, padding, dilation;
  bool ceil_mode = false;
};

// One integer for all, or one each; `otherwise` when the list is absent or empty.
std::vector<int64_t> PerDim(OpContext& c, const std::string& name, int spatial, std::vector<int64_t> otherwise);

// Reads kernel_size, stride, padding, dilation and ceil_mode.
Windows ReadWindows(OpContext& c, int spatial);

// x [..., s...] padded with `value` and cut into windows: [..., out..., kernel...]. `out` are the declared sizes.
Value CutWindows(OpContext& c, Value x, const Windows& w, double value, const std::vector<Expr>& out);

// Where window i of a dimension begins in x (negative inside the padding): i * stride - padding, i64 [out].
Value WindowStarts(OpContext& c, const Windows& w, int dim, const Expr& out);

// How many elements each window of x averages over, i64: [1.., out...]. Windows are cut off at the padding's end;
// padding counts if `count_padding`.
Value AverageCounts(OpContext& c, Value x, const Windows& w, const std::vector<Expr>& out, bool count_padding);

// Windows of adaptive pooling: output i covers floor(i*in/out) to ceil((i+1)*in/out).
struct UnevenWindows {
  Value index, inside;  // [out, longest]: the elements of each window, and which of them count
  Value start, count;   // i64 [out]
};
UnevenWindows CutUneven(OpContext& c, int64_t in, int64_t out);

// inside, for a tensor whose dimension `dim` is the windows and dimension `element` the elements of each.
Value InsideMask(OpContext& c, const UnevenWindows& windows, Value like, int64_t dim, int64_t element);

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_WINDOWS_H_
