#ifndef PREHEAT_KERNELS_LIBRARY_LOOPS_H_
#define PREHEAT_KERNELS_LIBRARY_LOOPS_H_

#include "kernels/library/provider.h"

namespace preheat::library {

// Own blocked loops: every operation, dtype from u8 to f64, stride and epilogue. f16 and bf16 are summed in f32,
// integers wrap. Results do not depend on the number of threads.
const Provider& LoopsProvider();

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_LOOPS_H_
