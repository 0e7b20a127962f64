#ifndef PREHEAT_KERNELS_LIBRARY_POINTWISE_H_
#define PREHEAT_KERNELS_LIBRARY_POINTWISE_H_

#include <memory>

#include "kernels/library/provider.h"

namespace preheat::library {

// A convolution by a window of one pixel, or (where it has no stride) its gradient by the input, in f32 on row-major
// images: a matrix product of the filters with every image. Images and results are read and written as they lie, and
// channels are summed in short blocks, whose sums are added: nearer to the exact result than one sum over all of them.
bool IsPointwise(const CallSpec& call);

// REQUIRES: IsPointwise(call).
std::unique_ptr<PreparedCall> PreparePointwise(const CallSpec& call);

// A convolution by a window of one pixel, or a gradient of one without strides, in f32: all tensors row-major.
bool IsOnePixelOfRows(const CallSpec& call);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_POINTWISE_H_
