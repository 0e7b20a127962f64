#ifndef PREHEAT_KERNELS_LIBRARY_NAIVE_H_
#define PREHEAT_KERNELS_LIBRARY_NAIVE_H_

// For tests: library calls as their definition says, one element after another, in double (integers in int64). Shares
// nothing with the providers but half.h.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/library/call.h"
#include "kernels/library/half.h"

namespace preheat::library {

inline int64_t SizeOfDType(int32_t dtype) {
  static constexpr int64_t kSizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return kSizes[dtype];
}

// A tensor in memory of its own; bytes between the strides are filled too, to be found changed when they are.
struct HostData {
  TensorSpec spec;
  std::vector<char> bytes;

  explicit HostData(TensorSpec s = {}) : spec(std::move(s)) {
    int64_t extent = 1;
    for (int i = 0; i < spec.rank(); ++i) extent += (spec.sizes[i] - 1) * spec.strides[i];
    bytes.assign(static_cast<size_t>(std::max<int64_t>(extent, 1) * SizeOfDType(spec.dtype)), 0x5a);
  }
  double Get(int64_t offset) const {
    const char* p = bytes.data() + offset * SizeOfDType(spec.dtype);
    switch (static_cast<DType>(spec.dtype)) {
      case DType::kBool:
      case DType::kU8: return *reinterpret_cast<const uint8_t*>(p);
      case DType::kI8: return *reinterpret_cast<const int8_t*>(p);
      case DType::kI16: return *reinterpret_cast<const int16_t*>(p);
      case DType::kI32: return *reinterpret_cast<const int32_t*>(p);
      case DType::kI64: return static_cast<double>(*reinterpret_cast<const int64_t*>(p));
      case DType::kF16: return ToFloat(*reinterpret_cast<const F16*>(p));
      case DType::kBF16: return ToFloat(*reinterpret_cast<const BF16*>(p));
      case DType::kF32: return *reinterpret_cast<const float*>(p);
      default: return *reinterpret_cast<const double*>(p);
    }
  }
  void Set(int64_t offset, double value) {
    char* p = bytes.data() + offset * SizeOfDType(spec.dtype);
    switch (static_cast<DType>(spec.dtype)) {
      case DType::kBool:
      case DType::kU8: *reinterpret_cast<uint8_t*>(p) = static_cast<uint8_t>(static_cast<int64_t>(value)); break;
      case DType::kI8: *reinterpret_cast<int8_t*>(p) = static_cast<int8_t>(static_cast<int64_t>(value)); break;
      case DType::kI16: *reinterpret_cast<int16_t*>(p) = static_cast<int16_t>(static_cast<int64_t>(value)); break;
      case DType::kI32: *reinterpret_cast<int32_t*>(p) = static_cast<int32_t>(static_cast<int64_t>(value)); break;
      case DType::kI64: *reinterpret_cast<int64_t*>(p) = static_cast<int64_t>(value); break;
      case DType::kF16: *reinterpret_cast<F16*>(p) = ToF16(static_cast<float>(value)); break;
      case DType::kBF16: *reinterpret_cast<BF16*>(p) = ToBF16(static_cast<float>(value)); break;
      case DType::kF32: *reinterpret_cast<float*>(p) = static_cast<float>(value); break;
      default: *reinterpret_cast<double*>(p) = value;
    }
  }
};

// Calls body with every index of the sizes.
inline void ForEachIndex(const std::vector<int64_t>& sizes,
                         const std::function<void(const std::vector<int64_t>&)>& body) {
  std::vector<int64_t> index(sizes.size(), 0);
  for (int64_t size : sizes) {
    if (size == 0) return;
  }
  while (true) {
    body(index);
    int d = static_cast<int>(sizes.size()) - 1;
    while (d >= 0 && ++index[d] == sizes[d]) index[d--] = 0;
    if (d < 0) return;
  }
}

inline int64_t OffsetOf(const TensorSpec& t, const std::vector<int64_t>& index) {
  int64_t offset = 0;
  for (int i = 0; i < t.rank(); ++i) offset += index[i] * t.strides[i];
  return offset;
}

inline double NaiveActivation(int32_t op, double x) {
  switch (op) {
    case PREHEAT_LIB_RELU: return x > 0 ? x : 0;
    case PREHEAT_LIB_GELU: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case PREHEAT_LIB_GELU_TANH: return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case PREHEAT_LIB_SILU: return x / (1 + std::exp(-x));
    case PREHEAT_LIB_TANH: return std::tanh(x);
    default: return 1 / (1 + std::exp(-x));
  }
}

// An integer as its dtype holds it; floats as they are.
inline double Wrapped(int32_t dtype, double value) {
  if (dtype >= static_cast<int32_t>(DType::kF16)) return value;
  HostData one(TensorSpec{dtype, {1}, {1}});
  one.Set(0, value);
  return one.Get(0);
}

struct NaiveResult {
  std::vector<double> values;      // dense, in the order of the result's indices
  std::vector<double> magnitudes;  // sums of absolute values of the products: what rounding errors scale with
};

// Adds a product to an element of the result.
using AddProduct = std::function<void(int64_t flat, double left, double right)>;

inline int64_t Flat(const TensorSpec& t, const std::vector<int64_t>& index) {
  int64_t flat = 0;
  for (int i = 0; i < t.rank(); ++i) flat = flat * t.sizes[i] + index[i];
  return flat;
}

inline void NaiveMatMul(const CallSpec& call, const HostData& a, const HostData& b, const AddProduct& add) {
  const int rank = call.result.rank();
  ForEachIndex(call.result.sizes, [&](const std::vector<int64_t>& index) {
    std::vector<int64_t> left = index, right = index;
    for (int64_t k = 0; k < a.spec.sizes[rank - 1]; ++k) {
      left[rank - 1] = right[rank - 2] = k;
      add(Flat(call.result, index), a.Get(OffsetOf(a.spec, left)), b.Get(OffsetOf(b.spec, right)));
    }
  });
}

// Every product of a convolution in the order of y, c and the window: the three operations add it in three places. The
// spec's `transposed` exchanges x and y, as in torch.
inline void NaiveConv(const CallSpec& call, const HostData& first, const HostData& second, const AddProduct& add) {
  const TensorSpec* tensors[3] = {&call.operands[0], &call.operands[1], &call.result};  // x, w, y
  int place[3] = {0, 1, 2};
  if (call.op == PREHEAT_LIB_CONV_GRAD_INPUT) {
    place[0] = 2, place[2] = 0;
  }
  if (call.op == PREHEAT_LIB_CONV_GRAD_WEIGHT) {
    place[0] = 1, place[1] = 2, place[2] = 0;
  }
  if (call.transposed) std::swap(place[0], place[2]);
  const TensorSpec &x = *tensors[place[0]], &w = *tensors[place[1]], &y = *tensors[place[2]];
  const int64_t per_group = w.sizes[0] / call.groups;
  ForEachIndex(y.sizes, [&](const std::vector<int64_t>& out) {
    std::vector<int64_t> window_sizes(w.sizes.begin() + 1, w.sizes.end());
    ForEachIndex(window_sizes, [&](const std::vector<int64_t>& tap) {
      std::vector<int64_t> in = out, weight = {out[1]};
      weight.insert(weight.end(), tap.begin(), tap.end());
      in[1] = out[1] / per_group * w.sizes[1] + tap[0];
      for (int d = 0; d < call.spatial(); ++d) {
        in[d + 2] = out[d + 2] * call.stride[d] - call.padding[d] + tap[d + 1] * call.dilation[d];
        if (in[d + 2] < 0 || in[d + 2] >= x.sizes[d + 2]) return;
      }
      const std::vector<int64_t>* indices[3];
      indices[place[0]] = &in, indices[place[1]] = &weight, indices[place[2]] = &out;
      add(Flat(call.result, *indices[2]), first.Get(OffsetOf(first.spec, *indices[0])),
          second.Get(OffsetOf(second.spec, *indices[1])));
    });
  });
}

// `epilogue`: one an epilogue of the call; those without operand are not looked at.
inline NaiveResult Naive(const CallSpec& call, const HostData& a, const HostData& b,
                         const std::vector<HostData>& epilogue) {
  NaiveResult result;
  result.values.assign(static_cast<size_t>(call.result.elements()), 0);
  result.magnitudes = result.values;
  const AddProduct add = [&](int64_t flat, double left, double right) {
    result.values[flat] += left * right;
    result.magnitudes[flat] += std::abs(left * right);
  };
  call.op == PREHEAT_LIB_MATMUL ? NaiveMatMul(call, a, b, add) : NaiveConv(call, a, b, add);
  const int channel = call.op == PREHEAT_LIB_MATMUL ? call.result.rank() - 1 : 1;
  for (size_t e = 0; e < call.epilogue.size(); ++e) {
    ForEachIndex(call.result.sizes, [&](const std::vector<int64_t>& index) {
      const int64_t flat = Flat(call.result, index);
      double& value = result.values[flat];
      if (!TakesOperand(call.epilogue[e].op)) {
        value = NaiveActivation(call.epilogue[e].op, Wrapped(call.result.dtype, value));
        return;
      }
      const bool bias = call.epilogue[e].op == PREHEAT_LIB_BIAS;
      const double added =
          epilogue[e].Get(OffsetOf(epilogue[e].spec, bias ? std::vector<int64_t>{index[channel]} : index));
      value += added;
      result.magnitudes[flat] += std::abs(added);
    });
  }
  return result;
}

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_NAIVE_H_
