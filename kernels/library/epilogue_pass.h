#ifndef PREHEAT_KERNELS_LIBRARY_EPILOGUE_PASS_H_
#define PREHEAT_KERNELS_LIBRARY_EPILOGUE_PASS_H_

#include <memory>

#include "kernels/library/provider.h"

namespace preheat::library {

// `product` followed by a pass over its result that applies the epilogues of `call`. f32 only. REQUIRES: `product` is
// `call` without epilogues, and `call` is checked.
std::unique_ptr<PreparedCall> WithEpiloguePass(std::unique_ptr<PreparedCall> product, const CallSpec& call);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_EPILOGUE_PASS_H_
