#include "compiler/capture/export_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/capture/limits.h"
#include "compiler/capture/sympy_text.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

using ir::DType;
using ir::Expr;

// torch's ScalarType numbers in schema 8.
std::optional<DType> ScalarType(int64_t number) {
  switch (number) {
    case 1: return DType::kU8;
    case 2: return DType::kI8;
    case 3: return DType::kI16;
    case 4: return DType::kI32;
    case 5: return DType::kI64;
    case 6: return DType::kF16;
    case 7: return DType::kF32;
    case 8: return DType::kF64;
    case 10: return DType::kC64;
    case 11: return DType::kC128;
    case 12: return DType::kBool;
    case 13: return DType::kBF16;
  }
  return std::nullopt;
}

constexpr std::array<absl::string_view, 8> kLayouts = {"",           "sparse_coo", "sparse_csr", "sparse_csc",
                                                       "sparse_bsr", "sparse_bsc", "_mkldnn",    "strided"};
constexpr std::array<absl::string_view, 5> kMemoryFormats = {"", "contiguous_format", "channels_last",
                                                             "channels_last_3d", "preserve_format"};

template <size_t N>
absl::StatusOr<Argument> EnumOf(Enum::Kind kind, const std::array<absl::string_view, N>& names, const Json& number) {
  if (!number.is_number_integer()) return Malformed("an enumeration is not a number");
  int64_t n = number.get<int64_t>();
  if (n <= 0 || n >= static_cast<int64_t>(N)) return Malformed(absl::StrCat("enumeration value ", n, " is not known"));
  return Argument(Enum{kind, std::string(names[n])});
}

// Numbers; non-finite ones are strings.
absl::StatusOr<double> Float(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string& text = Text(value);
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return Malformed("a float is not a number");
}

absl::StatusOr<int64_t> Int(const Json& value) {
  if (!value.is_number_integer()) return Malformed("an int is not an integer");
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Malformed("an int is 2^63 or more");
  }
  return value.get<int64_t>();
}

absl::Status Unsupported(absl::string_view kind) {
  return MakeError(absl::StatusCode::kUnimplemented,
                   {.kind = "unsupported_argument",
                    .message = absl::StrCat("an argument is of the kind ", kind, ", which cannot be compiled"),
                    .where = "",
                    .fix = "leave the operator out of the exported part of the model"});
}

}  // namespace

absl::StatusOr<DType> ExportReader::DTypeOf(const Json& number) const {
  ASSIGN_OR_RETURN(int64_t n, Int(number));
  if (std::optional<DType> dtype = ScalarType(n)) return *dtype;
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "unknown_dtype",
                    .message = absl::StrCat("torch's scalar type ", n, " is not supported"),
                    .where = "",
                    .fix = "use bool, uint8, int8 to int64, float16, bfloat16, float32, float64 or complex"});
}

absl::StatusOr<Expr> ExportReader::Symbol(const std::string& name) {
  auto known = canonical_.find(name);
  if (known != canonical_.end()) return Expr::Symbol(known->second);
  if (absl::StartsWith(name, "u") || absl::StartsWith(name, "zuf")) {
    return MakeError(
        absl::StatusCode::kUnimplemented,
        {.kind = "data_dependent_size",
         .message = absl::StrCat("the size ", name, " depends on the contents of a tensor"),
         .where = "",
         .fix = "pad to a fixed size, or keep item(), nonzero() and masks as indices out of the exported part"});
  }
  ir::Symbol symbol{.name = absl::StrCat("d", symbols_.size()), .min = 0, .max = std::nullopt};
  const Json& range = Field(ranges_, name.c_str());
  if (Field(range, "min_val").is_number_integer()) {
    ASSIGN_OR_RETURN(symbol.min, Int(Field(range, "min_val")));
    symbol.min = std::clamp<int64_t>(symbol.min, 0, kMaxMagnitude);
  }
  if (Field(range, "max_val").is_number_integer()) {
    const Json& max = Field(range, "max_val");
    if (!max.is_number_unsigned() || max.get<uint64_t>() < static_cast<uint64_t>(kMaxMagnitude))
      symbol.max = max.get<int64_t>();
    if (symbol.max && *symbol.max < symbol.min) return Malformed(absl::StrCat("the range of ", name, " is empty"));
  }
  canonical_[name] = symbol.name;
  symbols_.push_back(symbol);
  return Expr::Symbol(symbol.name);
}

absl::StatusOr<Expr> ExportReader::SizeOf(const Json& sym_int) {
  if (const Json& constant = Field(sym_int, "as_int"); !constant.is_null()) {
    ASSIGN_OR_RETURN(int64_t value, Int(constant));
    RETURN_IF_ERROR(CheckMagnitude(Expr(value)));
    return Expr(value);
  }
  const std::string& text = Text(Field(Field(sym_int, "as_expr"), "expr_str"));
  if (text.empty()) return Malformed("a size is neither a number nor an expression");
  return ParseSympy(text, [this](const std::string& name) { return Symbol(name); });
}

absl::StatusOr<AtenType> ExportReader::TypeOf(const Json& meta) {
  AtenType type;
  ASSIGN_OR_RETURN(type.tensor.dtype, DTypeOf(Field(meta, "dtype")));
  const Json& sizes = Field(meta, "sizes");
  const Json& strides = Field(meta, "strides");
  if (!sizes.is_array() || !strides.is_array() || sizes.size() != strides.size()) {
    return Malformed("a tensor's sizes and strides differ in number");
  }
  for (const Json& size : sizes) {
    ASSIGN_OR_RETURN(Expr e, SizeOf(size));
    type.tensor.shape.push_back(std::move(e));
  }
  for (const Json& stride : strides) {
    ASSIGN_OR_RETURN(Expr e, SizeOf(stride));
    if (e.constant().value_or(0) < 0) return Malformed("a stride is negative");
    type.strides.push_back(std::move(e));
  }
  RETURN_IF_ERROR(CheckShape(type.tensor.shape));
  if (const Json& layout = Field(meta, "layout"); layout.is_number_integer() && layout != 7)
    return Unsupported("sparse tensor");
  type.device_type = Text(Field(Field(meta, "device"), "type"));
  return type;
}

absl::StatusOr<AtenType> ExportReader::DeclaredType(const Scope& scope, const std::string& name) {
  const Json& meta = Field(Field(*scope.graph, "tensor_values"), name.c_str());
  if (meta.is_null()) return Malformed(absl::StrCat("the tensor ", name, " has no declared type"));
  absl::StatusOr<AtenType> type = TypeOf(meta);
  if (!type.ok()) return WithWhere(type.status(), absl::StrCat("tensor ", name));
  return type;
}

absl::StatusOr<Expr> ExportReader::StorageOffset(const Scope& scope, const std::string& name) {
  const Json& offset = Field(Field(Field(*scope.graph, "tensor_values"), name.c_str()), "storage_offset");
  if (offset.is_null()) return Expr(0);
  return SizeOf(offset);
}

absl::StatusOr<Expr> ExportReader::NamedSize(const Scope& scope, const std::string& name) {
  const Json& size = Field(Field(*scope.graph, "sym_int_values"), name.c_str());
  if (size.is_null()) return Malformed(absl::StrCat("the size ", name, " is not declared"));
  return SizeOf(size);
}

absl::StatusOr<ValueRef> ExportReader::Tensor(const Scope& scope, const Json& argument) const {
  const std::string& name = Text(Field(argument, "name"));
  auto it = scope.value.find(name);
  if (it != scope.value.end()) return ValueRef{it->second};
  if (!Field(Field(*scope.graph, "tensor_values"), name.c_str()).is_null()) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.kind = "cyclic_graph",
                      .message = absl::StrCat("the value ", name, " is used before it is computed"),
                      .where = "",
                      .fix = "nodes must stand in execution order"});
  }
  return Malformed(absl::StrCat("the value \"", name, "\" does not exist"));
}

absl::StatusOr<Expr> ExportReader::SymIntArgument(const Scope& scope, const Json& argument) {
  if (const std::string& name = Text(Field(argument, "as_name")); !name.empty()) return NamedSize(scope, name);
  ASSIGN_OR_RETURN(int64_t value, Int(Field(argument, "as_int")));
  return Expr(value);
}

absl::StatusOr<Argument> ExportReader::TensorsArgument(const Scope& scope, const Json& items) const {
  std::vector<std::optional<ValueRef>> list;
  for (const Json& item : items) {
    if (!Field(item, "as_none").is_null()) {
      list.emplace_back(std::nullopt);
      continue;
    }
    const Json& wrapped = Field(item, "as_tensor");
    ASSIGN_OR_RETURN(ValueRef ref, Tensor(scope, wrapped.is_null() ? item : wrapped));
    list.emplace_back(ref);
  }
  return Argument(std::move(list));
}

absl::StatusOr<Argument> ExportReader::SizesArgument(const Scope& scope, const Json& items) {
  std::vector<Expr> list;
  for (const Json& item : items) {
    if (item.is_number()) {
      ASSIGN_OR_RETURN(int64_t value, Int(item));
      list.emplace_back(value);
      continue;
    }
    ASSIGN_OR_RETURN(Expr e, SymIntArgument(scope, item));
    list.push_back(std::move(e));
  }
  return Argument(std::move(list));
}

absl::StatusOr<Argument> ExportReader::ListArgument(const Scope& scope, const std::string& kind, const Json& items) {
  if (!items.is_array()) return Malformed(absl::StrCat("an argument ", kind, " is not a list"));
  if (kind == "as_tensors" || kind == "as_optional_tensors") return TensorsArgument(scope, items);
  if (kind == "as_ints" || kind == "as_sym_ints") return SizesArgument(scope, items);
  if (kind == "as_floats") {
    std::vector<double> list;
    for (const Json& item : items) {
      ASSIGN_OR_RETURN(double value, Float(item));
      list.push_back(value);
    }
    return Argument(std::move(list));
  }
  if (kind == "as_bools") {
    std::vector<bool> list;
    for (const Json& item : items) {
      if (!item.is_boolean()) return Malformed("a bool is not true or false");
      list.push_back(item.get<bool>());
    }
    return Argument(std::move(list));
  }
  return Unsupported(kind);
}

// Floats and bools that the exporter left symbolic: constants pass, others would need a run-time scalar.
absl::StatusOr<Argument> ExportReader::SymbolicScalar(const Scope& scope, const std::string& kind,
                                                      const Json& argument) {
  if (const Json& value = Field(argument, "as_float"); !value.is_null()) {
    ASSIGN_OR_RETURN(double v, Float(value));
    return Argument(v);
  }
  if (const Json& value = Field(argument, "as_bool"); value.is_boolean()) return Argument(value.get<bool>());
  const char* table = kind == "as_sym_float" ? "sym_float_values" : "sym_bool_values";
  const Json& declared = Field(Field(*scope.graph, table), Text(Field(argument, "as_name")).c_str());
  if (!Field(declared, "as_float").is_null() || !Field(declared, "as_bool").is_null()) {
    return SymbolicScalar(scope, kind, declared);
  }
  return Unsupported("symbolic float or bool");
}

absl::StatusOr<Argument> ExportReader::ArgumentOf(const Scope& scope, const Json& u) {
  if (!u.is_object() || u.size() != 1) return Malformed("an argument is not a union of one member");
  const std::string& kind = u.begin().key();
  const Json& value = u.begin().value();
  if (kind == "as_none") return Argument(None{});
  if (kind == "as_tensor" || kind == "as_optional_tensor") {
    if (!Field(value, "as_none").is_null()) return Argument(None{});
    const Json& wrapped = Field(value, "as_tensor");
    ASSIGN_OR_RETURN(ValueRef ref, Tensor(scope, wrapped.is_null() ? value : wrapped));
    return Argument(ref);
  }
  if (kind == "as_int") {
    ASSIGN_OR_RETURN(int64_t v, Int(value));
    return Argument(Expr(v));
  }
  if (kind == "as_float") {
    ASSIGN_OR_RETURN(double v, Float(value));
    return Argument(v);
  }
  if (kind == "as_bool")
    return value.is_boolean() ? absl::StatusOr<Argument>(value.get<bool>()) : Malformed("a bool is not true or false");
  if (kind == "as_string") return Argument(Text(value));
  if (kind == "as_sym_int") {
    ASSIGN_OR_RETURN(Expr e, SymIntArgument(scope, value));
    return Argument(std::move(e));
  }
  if (kind == "as_sym_float" || kind == "as_sym_bool") return SymbolicScalar(scope, kind, value);
  if (kind == "as_scalar_type") {
    ASSIGN_OR_RETURN(DType dtype, DTypeOf(value));
    return Argument(dtype);
  }
  if (kind == "as_layout") return EnumOf(Enum::Kind::kLayout, kLayouts, value);
  if (kind == "as_memory_format") return EnumOf(Enum::Kind::kMemoryFormat, kMemoryFormats, value);
  if (kind == "as_device") return Argument(Enum{Enum::Kind::kDevice, Text(Field(value, "type"))});
  if (kind == "as_complex") {
    ASSIGN_OR_RETURN(double re, Float(Field(value, "real")));
    ASSIGN_OR_RETURN(double im, Float(Field(value, "imag")));
    return Argument(Complex{re, im});
  }
  return ListArgument(scope, kind, value);
}

}  // namespace preheat::capture
