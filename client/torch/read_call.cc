#include "client/torch/read_call.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"

namespace preheat {
namespace {

using capture::Argument;
using capture::Enum;
using capture::ValueRef;
using nlohmann::json;

// The library throws on every surprise; ReadExternCall catches.
struct Surprise : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Floats travel as text, so that inf and nan can.
double Float(const json& v) { return std::strtod(v.get<std::string>().c_str(), nullptr); }

ir::Expr Integer(const json& v) {
  if (!v.is_number_integer()) throw Surprise(absl::StrCat("an integer was expected, not ", v.dump()));
  return v.get<int64_t>();
}

ir::DType DTypeOf(const json& v) {
  const std::string name = v.get<std::string>();
  std::optional<ir::DType> dtype = ir::ParseDType(name);
  if (!dtype) throw Surprise(absl::StrCat("there is no dtype ", name));
  return *dtype;
}

template <typename T, typename Fn>
std::vector<T> List(const json& v, const Fn& element) {
  std::vector<T> out;
  for (const json& e : v) out.push_back(element(e));
  return out;
}

Argument Tagged(const std::string& kind, const json& v) {
  if (kind == "t") return ValueRef{v.get<int>()};
  if (kind == "f") return Float(v);
  if (kind == "c") return capture::Complex{Float(v.at(0)), Float(v.at(1))};
  if (kind == "ts") {
    return List<std::optional<ValueRef>>(
        v, [](const json& e) { return e.is_null() ? std::nullopt : std::optional<ValueRef>(ValueRef{e.get<int>()}); });
  }
  if (kind == "is") return List<ir::Expr>(v, Integer);
  if (kind == "fs") return List<double>(v, Float);
  if (kind == "bs") return List<bool>(v, [](const json& e) { return e.get<bool>(); });
  if (kind == "dtype") return DTypeOf(v);
  if (kind == "layout") return Enum{Enum::Kind::kLayout, v.get<std::string>()};
  if (kind == "memory_format") return Enum{Enum::Kind::kMemoryFormat, v.get<std::string>()};
  if (kind == "device") return Enum{Enum::Kind::kDevice, v.get<std::string>()};
  throw Surprise(absl::StrCat("an argument of kind \"", kind, "\" is not known"));
}

Argument Read(const json& v) {
  if (v.is_null()) return capture::None{};
  if (v.is_boolean()) return v.get<bool>();
  if (v.is_string()) return v.get<std::string>();
  if (v.is_number()) return Integer(v);
  if (!v.is_object() || v.size() != 1) throw Surprise(absl::StrCat("not an argument: ", v.dump()));
  return Tagged(v.begin().key(), v.begin().value());
}

ReadCall ReadAll(const json& text) {
  ReadCall call;
  call.op = text.at("op").get<std::string>();
  for (const json& a : text.at("args")) {
    call.arguments.push_back({a.at("n").get<std::string>(), Read(a.at("v")), a.contains("k")});
  }
  if (text.contains("none")) call.skipped = text.at("none").get<std::set<int>>();
  return call;
}

}  // namespace

absl::StatusOr<ReadCall> ReadExternCall(absl::string_view text) {
  try {
    return ReadAll(json::parse(text.begin(), text.end()));
  } catch (const std::exception& e) {
    return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "malformed_call", .message = e.what()});
  }
}

}  // namespace preheat
