#ifndef PREHEAT_KERNELS_LIBRARY_PLUGIN_H_
#define PREHEAT_KERNELS_LIBRARY_PLUGIN_H_

#include "kernels/library/provider.h"

namespace preheat::library {

// oneDNN behind libpreheat_onednn.so, which lies beside the file that holds this code (or in ../lib of it): opened at
// the first call, with symbols of its own (RTLD_LOCAL | RTLD_DEEPBIND), never closed. Null when it is not there or does
// not load.
const Provider* OneDnnProvider();

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_PLUGIN_H_
