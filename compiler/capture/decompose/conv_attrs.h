#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_CONV_ATTRS_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_CONV_ATTRS_H_

#include <vector>

#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {

// The geometry of a convolution, one entry for each spatial dimension.
struct ConvAttrs {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false;

  ir::Attrs ToAttrs() const;
};

// From arguments named as in the schema of aten.convolution; absent ones have their default.
ConvAttrs ReadConv(OpContext& c, int spatial);

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_CONV_ATTRS_H_
