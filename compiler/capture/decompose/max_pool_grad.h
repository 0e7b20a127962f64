#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_MAX_POOL_GRAD_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_MAX_POOL_GRAD_H_

#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {

// The gradient of max pooling over `spatial` last dimensions, by the places of the maxima that the pooling gave.
//
// On a GPU, in two dimensions and without dilation, each element asks the windows over it whether it is their maximum,
// as eager does there: a thread an element, and sums in one order. Otherwise each window's gradient is scattered, a
// thread an image and channel.
LowerFn MaxPoolGrad(int spatial);

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_MAX_POOL_GRAD_H_
