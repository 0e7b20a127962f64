#include "compiler/capture/promote.h"

#include <algorithm>

namespace preheat::capture {
namespace {

using ir::DType;

// bool, integer, float, complex
int Kind(DType dtype) {
  if (ir::IsComplex(dtype)) return 3;
  if (ir::IsFloat(dtype)) return 2;
  return ir::IsInteger(dtype) ? 1 : 0;
}

DType PromoteIntegers(DType a, DType b) {
  if (a == DType::kU8 || b == DType::kU8) return std::max({a, b, DType::kI16});  // u8 with a signed one
  return std::max(a, b);
}

DType PromoteFloats(DType a, DType b) {
  if (a == b) return a;
  return std::max({a, b, DType::kF32});  // f16 with bf16 is f32
}

DType PromoteComplex(DType a, DType b) {
  bool wide = a == DType::kC128 || b == DType::kC128 || a == DType::kF64 || b == DType::kF64;
  return wide ? DType::kC128 : DType::kC64;
}

// The decision of two priority classes: `lower` counts only if its kind is greater.
std::optional<DType> Combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower || Kind(*higher) >= Kind(*lower)) return higher;
  return PromoteTypes(*higher, *lower);
}

}  // namespace

DType PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  if (Kind(a) == 3 || Kind(b) == 3) return PromoteComplex(a, b);
  if (Kind(a) != Kind(b)) return Kind(a) > Kind(b) ? a : b;
  return Kind(a) == 2 ? PromoteFloats(a, b) : PromoteIntegers(a, b);
}

void Promotion::Join(std::optional<DType>& into, DType dtype) { into = into ? PromoteTypes(*into, dtype) : dtype; }

void Promotion::AddTensor(const ir::TensorType& type) { Join(type.rank() == 0 ? zero_dim_ : dim_, type.dtype); }

void Promotion::AddNumber(const Argument& number) {
  if (std::holds_alternative<ir::Expr>(number)) Join(number_, DType::kI64);
  if (std::holds_alternative<double>(number)) Join(number_, DType::kF32);
  if (std::holds_alternative<bool>(number)) Join(number_, DType::kBool);
  if (std::holds_alternative<Complex>(number)) Join(number_, DType::kC64);
}

DType Promotion::Result() const { return Combine(dim_, Combine(zero_dim_, number_)).value_or(DType::kBool); }

}  // namespace preheat::capture
