#ifndef PREHEAT_KERNELS_LIBRARY_EXCHANGED_OPERANDS_H_
#define PREHEAT_KERNELS_LIBRARY_EXCHANGED_OPERANDS_H_

#include <memory>

#include "kernels/library/provider.h"

namespace preheat::library {

// The caller's order of operands around a call whose operands NormalizeCall has exchanged.
std::unique_ptr<PreparedCall> WithExchangedOperands(std::unique_ptr<PreparedCall> call);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_EXCHANGED_OPERANDS_H_
