#include "compiler/ir/scalar.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace preheat::ir {
namespace {

// A binary format: `precision` significant bits (the hidden one included), subnormals in steps of
// 2^`smallest`, finite up to `largest`.
struct Format {
  int precision;
  int smallest;
  double largest;
};
constexpr Format kF16 = {11, -24, 65504.0};
constexpr Format kBF16 = {8, -133, 0x1.fep+127};

double Round(const Format& format, double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent;
  std::frexp(value, &exponent);
  int step = std::max(exponent - format.precision, format.smallest);
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -step)), step);
  if (std::fabs(rounded) > format.largest) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace

double RoundTo(DType dtype, double value) {
  switch (dtype) {
    case DType::kF16: return Round(kF16, value);
    case DType::kBF16: return Round(kBF16, value);
    case DType::kF32: return static_cast<double>(static_cast<float>(value));
    default: return value;
  }
}

int64_t WrapTo(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kBool: return value != 0;
    case DType::kU8: return static_cast<uint8_t>(value);
    case DType::kI8: return static_cast<int8_t>(value);
    case DType::kI16: return static_cast<int16_t>(value);
    case DType::kI32: return static_cast<int32_t>(value);
    default: return value;
  }
}

uint16_t EncodeF16(double value) {
  if (std::isnan(value)) return 0x7e00;
  double rounded = Round(kF16, value);
  uint16_t sign = std::signbit(rounded) ? 0x8000 : 0;
  double size = std::fabs(rounded);
  if (std::isinf(size)) return sign | 0x7c00;
  if (size < 0x1p-14) return sign | static_cast<uint16_t>(std::ldexp(size, 24));  // subnormals and zero
  int exponent;
  double fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  return sign | static_cast<uint16_t>((exponent + 14) << 10) | static_cast<uint16_t>((fraction * 2 - 1) * 1024);
}

double DecodeF16(uint16_t bits) {
  double sign = bits & 0x8000 ? -1.0 : 1.0;
  int exponent = (bits >> 10) & 0x1f;
  int fraction = bits & 0x3ff;
  if (exponent == 0x1f) {
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

uint16_t EncodeBF16(double value) {
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>(FloatBits(static_cast<float>(Round(kBF16, value))) >> 16);
}

double DecodeBF16(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

absl::StatusOr<Scalar> ScalarAs(Scalar scalar, DType dtype) {
  if (IsComplex(dtype)) return absl::InvalidArgumentError(absl::StrCat("no scalar of dtype ", DTypeName(dtype)));
  if (IsFloat(dtype)) {
    double value = RoundTo(dtype, ScalarToDouble(scalar));
    return Scalar(std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);  // one NaN, one text
  }
  if (const double* value = std::get_if<double>(&scalar)) {
    if (dtype == DType::kBool) return Scalar(int64_t{*value != 0});
    if (std::trunc(*value) != *value || std::fabs(*value) >= 0x1p63) {
      return absl::InvalidArgumentError(absl::StrCat(*value, " is no value of dtype ", DTypeName(dtype)));
    }
    return Scalar(WrapTo(dtype, static_cast<int64_t>(*value)));
  }
  return Scalar(WrapTo(dtype, std::get<int64_t>(scalar)));
}

double ScalarToDouble(Scalar scalar) {
  if (const int64_t* i = std::get_if<int64_t>(&scalar)) return static_cast<double>(*i);
  return std::get<double>(scalar);
}

}  // namespace preheat::ir
