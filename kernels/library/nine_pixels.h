#ifndef PREHEAT_KERNELS_LIBRARY_NINE_PIXELS_H_
#define PREHEAT_KERNELS_LIBRARY_NINE_PIXELS_H_

#include <memory>

#include "kernels/library/provider.h"

namespace preheat::library {

// A convolution by windows of 3 by 3 pixels with strides of 1 or 2, or (with strides of 1) its gradient by the input,
// in f32 on row-major images. A band of rows of a group's channels is copied three times, once for each column of a
// window, so that the pixels of one tap lie side by side for all windows; results are written as they lie. The nine
// products of a channel are summed, these sums over eight channels, and those over all: nearer to the exact result
// than one sum over everything.
bool IsNinePixels(const CallSpec& call);

// REQUIRES: IsNinePixels(call).
std::unique_ptr<PreparedCall> PrepareNinePixels(const CallSpec& call);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_NINE_PIXELS_H_
