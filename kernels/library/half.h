#ifndef PREHEAT_KERNELS_LIBRARY_HALF_H_
#define PREHEAT_KERNELS_LIBRARY_HALF_H_

#include <cstdint>
#include <cstring>

namespace preheat::library {

// The 16-bit floats as storage: bits with exact conversion to float and conversion back to the nearest, ties to even.
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

inline float BitsToFloat(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof(f));
  return f;
}
inline uint32_t FloatToBits(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof(bits));
  return bits;
}

inline float ToFloat(BF16 h) { return BitsToFloat(static_cast<uint32_t>(h.bits) << 16); }

inline float ToFloat(F16 h) {
  const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000) << 16;
  const uint32_t rest = h.bits & 0x7fff;
  // Subnormals: the integer rest times 2^-24.
  if (rest < 0x0400) return BitsToFloat(sign | FloatToBits(static_cast<float>(rest) * 0x1p-24f));
  if (rest >= 0x7c00) return BitsToFloat(sign | 0x7f800000u | (rest & 0x3ff) << 13);
  return BitsToFloat(sign | ((rest << 13) + (112u << 23)));
}

inline BF16 ToBF16(float f) {
  const uint32_t bits = FloatToBits(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return BF16{static_cast<uint16_t>((bits >> 16) | 0x40)};
  return BF16{static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

inline F16 ToF16(float f) {
  const uint32_t bits = FloatToBits(f);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return F16{static_cast<uint16_t>(sign | 0x7e00u)};
  if (rest >= 0x477ff000u) return F16{static_cast<uint16_t>(sign | 0x7c00u)};  // 65520 and more
  if (rest < 0x38800000u) {
    // Below 2^-14: adding 0.5 shifts the value so that its unit in the last place is 2^-24, rounding as it goes.
    const uint32_t shifted = FloatToBits(BitsToFloat(rest) + 0.5f);
    return F16{static_cast<uint16_t>(sign | (shifted - 0x3f000000u))};
  }
  const uint32_t rounded = rest + 0xfffu + ((rest >> 13) & 1u);
  return F16{static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13))};
}

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_HALF_H_
