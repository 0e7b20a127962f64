#include "compiler/reference/to_ivalue.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/reference/tensors.h"

namespace preheat::reference {
namespace {

using capture::Argument;
using capture::ValueRef;

class Converter {
 public:
  explicit Converter(const CallScope& scope) : scope_(scope) {}

  c10::IValue Convert(const Argument& a, const c10::TypePtr& type, std::optional<int32_t> length) const {
    if (auto optional = type->cast<c10::OptionalType>()) {
      if (std::holds_alternative<capture::None>(a)) return {};
      return Convert(a, optional->getElementType(), length);
    }
    if (auto list = type->cast<c10::ListType>()) return List(a, list->getElementType(), length);
    return Single(a, type);
  }

 private:
  int64_t Integer(const ir::Expr& e) const {
    if (auto constant = e.constant()) return *constant;
    return e.Evaluate(scope_.symbol);
  }

  // A number of whatever kind the argument has.
  c10::Scalar Number(const Argument& a) const {
    if (auto* e = std::get_if<ir::Expr>(&a)) return Integer(*e);
    if (auto* d = std::get_if<double>(&a)) return *d;
    if (auto* b = std::get_if<bool>(&a)) return *b;
    if (auto* c = std::get_if<capture::Complex>(&a)) return c10::complex<double>(c->re, c->im);
    if (auto* ref = std::get_if<ValueRef>(&a)) {
      c10::IValue value = scope_.value(ref->id);
      return value.isTensor() ? value.toTensor().item() : value.toScalar();
    }
    TORCH_CHECK(false, "a number was expected");
  }

  c10::IValue Tensor(const Argument& a) const {
    if (std::holds_alternative<capture::None>(a)) return at::Tensor();
    if (auto* ref = std::get_if<ValueRef>(&a)) {
      c10::IValue value = scope_.value(ref->id);
      return value.isTensor() ? value : c10::IValue(WrappedNumber(value.toScalar()));
    }
    return WrappedNumber(Number(a));
  }

  c10::IValue Named(const capture::Enum& e) const {
    if (e.kind == capture::Enum::Kind::kDevice) return c10::Device(e.name);
    if (e.kind == capture::Enum::Kind::kLayout) {
      TORCH_CHECK(e.name == "strided", "layout ", e.name, " is not supported");
      return c10::Layout::Strided;
    }
    if (e.name == "contiguous_format") return c10::MemoryFormat::Contiguous;
    if (e.name == "preserve_format") return c10::MemoryFormat::Preserve;
    if (e.name == "channels_last") return c10::MemoryFormat::ChannelsLast;
    if (e.name == "channels_last_3d") return c10::MemoryFormat::ChannelsLast3d;
    TORCH_CHECK(false, "memory format ", e.name, " is not known");
  }

  c10::IValue Single(const Argument& a, const c10::TypePtr& type) const {
    if (auto* dtype = std::get_if<ir::DType>(&a)) return static_cast<int64_t>(ToTorch(*dtype));
    if (auto* named = std::get_if<capture::Enum>(&a)) return Named(*named);
    if (auto* text = std::get_if<std::string>(&a)) return *text;
    switch (type->kind()) {
      case c10::TypeKind::TensorType: return Tensor(a);
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType: return Number(a).toLong();
      case c10::TypeKind::FloatType:
      case c10::TypeKind::SymFloatType: return Number(a).toDouble();
      case c10::TypeKind::BoolType:
      case c10::TypeKind::SymBoolType: return Number(a).toBool();
      case c10::TypeKind::NumberType: return Number(a);
      default: break;
    }
    TORCH_CHECK(std::holds_alternative<capture::None>(a), "no argument of type ", type->repr_str(), " is supported");
    return {};
  }

  // The elements as single arguments; one number stands for `length` equal ones.
  static std::vector<Argument> Elements(const Argument& a, std::optional<int32_t> length) {
    std::vector<Argument> out;
    if (auto* refs = std::get_if<std::vector<std::optional<ValueRef>>>(&a)) {
      for (const auto& ref : *refs) out.push_back(ref ? Argument(*ref) : Argument(capture::None{}));
    } else if (auto* integers = std::get_if<std::vector<ir::Expr>>(&a)) {
      for (const ir::Expr& e : *integers) out.emplace_back(e);
    } else if (auto* numbers = std::get_if<std::vector<double>>(&a)) {
      for (double d : *numbers) out.emplace_back(d);
    } else if (auto* booleans = std::get_if<std::vector<bool>>(&a)) {
      for (bool b : *booleans) out.emplace_back(b);
    } else {
      out.assign(length.value_or(1), a);
    }
    return out;
  }

  template <typename T, typename Fn>
  static c10::IValue Collect(const std::vector<Argument>& elements, const Fn& convert) {
    c10::List<T> list;
    list.reserve(elements.size());
    for (const Argument& a : elements) list.push_back(convert(a));
    return list;
  }

  c10::IValue List(const Argument& a, const c10::TypePtr& type, std::optional<int32_t> length) const {
    const std::vector<Argument> elements = Elements(a, length);
    switch (type->kind()) {
      case c10::TypeKind::TensorType:
        return Collect<at::Tensor>(elements, [&](const Argument& e) { return Tensor(e).toTensor(); });
      case c10::TypeKind::OptionalType:
        return Collect<std::optional<at::Tensor>>(elements, [&](const Argument& e) -> std::optional<at::Tensor> {
          if (std::holds_alternative<capture::None>(e)) return std::nullopt;
          return Tensor(e).toTensor();
        });
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType:
        return Collect<int64_t>(elements, [&](const Argument& e) { return Number(e).toLong(); });
      case c10::TypeKind::FloatType:
        return Collect<double>(elements, [&](const Argument& e) { return Number(e).toDouble(); });
      case c10::TypeKind::BoolType:
        return Collect<bool>(elements, [&](const Argument& e) { return Number(e).toBool(); });
      case c10::TypeKind::NumberType: {
        c10::impl::GenericList list(type);
        for (const Argument& e : elements) list.push_back(Number(e));
        return list;
      }
      default: break;
    }
    TORCH_CHECK(false, "no list of ", type->repr_str(), " is supported");
  }

  const CallScope& scope_;
};

}  // namespace

c10::IValue ToIValue(const Argument& argument, const c10::Argument& formal, const CallScope& scope) {
  return Converter(scope).Convert(argument, formal.type(), formal.N());
}

}  // namespace preheat::reference
