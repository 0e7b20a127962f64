#include "compiler/ir/dtype.h"

#include <array>
#include <cstddef>

namespace preheat::ir {
namespace {

struct Row {
  absl::string_view name;
  int64_t size;
};

// Indexed by the enum's value.
constexpr std::array<Row, 12> kRows = {{{"bool", 1},
                                        {"u8", 1},
                                        {"i8", 1},
                                        {"i16", 2},
                                        {"i32", 4},
                                        {"i64", 8},
                                        {"f16", 2},
                                        {"bf16", 2},
                                        {"f32", 4},
                                        {"f64", 8},
                                        {"c64", 8},
                                        {"c128", 16}}};

}  // namespace

absl::string_view DTypeName(DType dtype) { return kRows[static_cast<size_t>(dtype)].name; }

std::optional<DType> ParseDType(absl::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int64_t DTypeSize(DType dtype) { return kRows[static_cast<size_t>(dtype)].size; }

bool IsFloat(DType dtype) { return dtype >= DType::kF16 && dtype <= DType::kF64; }
bool IsInteger(DType dtype) { return dtype >= DType::kU8 && dtype <= DType::kI64; }
bool IsComplex(DType dtype) { return dtype >= DType::kC64; }

}  // namespace preheat::ir
