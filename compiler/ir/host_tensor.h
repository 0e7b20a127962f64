#ifndef PREHEAT_COMPILER_IR_HOST_TENSOR_H_
#define PREHEAT_COMPILER_IR_HOST_TENSOR_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/ir/graph.h"

namespace preheat::ir {

// Values of the symbols in one run.
using SymbolValues = std::map<std::string, int64_t>;

// A dense row-major tensor in this process's memory, little endian. Plain data.
struct HostTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string data;  // elements() * DTypeSize(dtype) bytes

  static HostTensor Zeros(DType dtype, std::vector<int64_t> shape);

  int64_t elements() const;

  // Element i in row-major order. REQUIRES: a float dtype.
  double Float(int64_t i) const;
  void SetFloat(int64_t i, double value);  // rounds
  // REQUIRES: an integer dtype or bool.
  int64_t Int(int64_t i) const;
  void SetInt(int64_t i, int64_t value);  // wraps; bool: != 0
  // Any dtype: the bytes of one element.
  void CopyElement(int64_t i, const HostTensor& from, int64_t j);

  bool operator==(const HostTensor& other) const = default;
};

// The shape with symbols replaced. INVALID_ARGUMENT for a symbol without value or a negative size;
// RESOURCE_EXHAUSTED above kMaxHostElements.
absl::StatusOr<std::vector<int64_t>> ConcreteShape(absl::Span<const Expr> shape, const SymbolValues& symbols);
absl::StatusOr<int64_t> ConcreteValue(const Expr& e, const SymbolValues& symbols);
inline constexpr int64_t kMaxHostElements = int64_t{1} << 28;

// Row-major strides in elements, and a walk over all positions of a shape in row-major order.
std::vector<int64_t> HostStrides(absl::Span<const int64_t> shape);
int64_t HostElements(absl::Span<const int64_t> shape);

template <typename F>
void ForEachPosition(absl::Span<const int64_t> shape, F f) {
  std::vector<int64_t> at(shape.size(), 0);
  for (int64_t i = 0, n = HostElements(shape); i < n; ++i) {
    f(i, absl::MakeConstSpan(at));
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
}

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_HOST_TENSOR_H_
