// Compiled for x86-64-v2: see CMakeLists.txt.
#define PREHEAT_VECTOR_BYTES 16
#define PREHEAT_ROWS 4
#define PREHEAT_POINTWISE_ROWS 3
#define PREHEAT_GRAD_ROWS 3
#define PREHEAT_GRAD_COLUMNS 3
#define PREHEAT_NINE_PIXELS_TILE 9
#include "kernels/library/micro_kernel_body.h"
// After it, whose RunRows it uses.
#include "kernels/library/attention_kernel_body.h"
#include "kernels/library/pointwise_grad_kernel_body.h"
#include "kernels/library/pointwise_kernel_body.h"
// After it, whose vectors it uses.
#include "kernels/library/nine_pixels_kernel_body.h"

namespace preheat::library {

const MicroKernels kMicroKernelsV2 = {Kernel<float>(), Kernel<double>(), Kernel<uint32_t>(), Kernel<uint64_t>(),
                                      OfRows<float>(), OfRows<double>(), Attention(),        Pointwise(),
                                      PointwiseGrad(), NinePixels()};

}  // namespace preheat::library
