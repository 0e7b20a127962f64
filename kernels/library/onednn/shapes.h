#ifndef PREHEAT_KERNELS_LIBRARY_ONEDNN_SHAPES_H_
#define PREHEAT_KERNELS_LIBRARY_ONEDNN_SHAPES_H_

#include <dnnl.hpp>
#include <string>
#include <vector>

#include "kernels/library/library_call.h"

namespace preheat::onednn {

using Dims = dnnl::memory::dims;
using Desc = dnnl::memory::desc;

// Thrown where a call is declined; the reason is for the table's reader, no error of the user's.
struct Declined {
  std::string reason;
};

// The calls' numbers as oneDNN takes them. f32 and bf16; anything else is declined.
dnnl::memory::data_type TypeOf(int32_t dtype);

// A tensor's memory as it is.
Desc Strided(const Dims& sizes, Dims strides, dnnl::memory::data_type type);

// Row-major without gaps.
Desc Dense(const Dims& sizes, dnnl::memory::data_type type);

// A matrix product with as few batch dimensions as its strides allow: oneDNN is best at few. Rows of a left operand
// whose right operand is the same for all batches are joined to one matrix. Batch dimensions that an operand broadcasts
// have size 1 there.
struct MatMulShape {
  Dims a_sizes, a_strides, b_sizes, b_strides, c_sizes, c_strides;
  std::vector<Dims> residual_strides;  // one an epilogue; empty but for residuals
};
MatMulShape JoinBatches(const preheat_lib_call& call);

}  // namespace preheat::onednn

#endif  // PREHEAT_KERNELS_LIBRARY_ONEDNN_SHAPES_H_
