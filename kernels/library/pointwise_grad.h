#ifndef PREHEAT_KERNELS_LIBRARY_POINTWISE_GRAD_H_
#define PREHEAT_KERNELS_LIBRARY_POINTWISE_GRAD_H_

#include <memory>

#include "kernels/library/provider.h"

namespace preheat::library {

// The gradient by the filters of a convolution by a window of one pixel without strides, in f32 on row-major images:
// products of the channels of both sides, which are read as they lie. Up to about 1,000 positions are summed in f32,
// each lane of a vector by itself, and those sums in f64.
bool IsPointwiseGrad(const CallSpec& call);

// REQUIRES: IsPointwiseGrad(call).
std::unique_ptr<PreparedCall> PreparePointwiseGrad(const CallSpec& call);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_POINTWISE_GRAD_H_
