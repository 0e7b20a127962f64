#ifndef PREHEAT_KERNELS_LIBRARY_EPILOGUE_H_
#define PREHEAT_KERNELS_LIBRARY_EPILOGUE_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/library/call.h"

namespace preheat::library {

// An epilogue that takes no operand, as eager computes it. Integers know relu only.
template <typename T>
T Activate(int32_t op, T x) {
  if (op == PREHEAT_LIB_RELU) {
    if constexpr (std::is_floating_point_v<T>) {
      return x < 0 ? T(0) : x;  // NaN stays
    } else {
      using Signed = std::make_signed_t<T>;  // unsigned dtypes never have the top bit: they are widened
      return static_cast<Signed>(x) > 0 ? x : T(0);
    }
  }
  if constexpr (std::is_floating_point_v<T>) {
    switch (op) {
      case PREHEAT_LIB_GELU: return x * T(0.5) * (1 + std::erf(x * T(0.70710678118654752440)));
      case PREHEAT_LIB_GELU_TANH:
        return x * T(0.5) * (1 + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
      case PREHEAT_LIB_SILU: return x / (1 + std::exp(-x));
      case PREHEAT_LIB_TANH: return std::tanh(x);
      case PREHEAT_LIB_SIGMOID: return 1 / (1 + std::exp(-x));
      default: break;
    }
  }
  return x;
}

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_EPILOGUE_H_
