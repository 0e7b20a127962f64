#include "compiler/capture/decompose/extern_call.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace preheat::decompose {
namespace {

using capture::AtenNode;
using capture::Enum;
using ir::Expr;
using Json = nlohmann::ordered_json;

Json Integer(const Expr& e) {
  if (std::optional<int64_t> value = e.constant()) return *value;
  return {{"e", e.ToString()}};
}

std::string FloatText(double value) { return absl::StrFormat("%.17g", value); }

const char* EnumKey(Enum::Kind kind) {
  switch (kind) {
    case Enum::Kind::kLayout: return "layout";
    case Enum::Kind::kMemoryFormat: return "memory_format";
    case Enum::Kind::kDevice: return "device";
  }
  return "";
}

struct ArgumentWriter {
  std::vector<int>& operands;

  int Number(capture::ValueRef ref) const {
    auto it = std::find(operands.begin(), operands.end(), ref.id);
    if (it == operands.end()) it = operands.insert(operands.end(), ref.id);
    return static_cast<int>(it - operands.begin());
  }

  Json operator()(capture::None) const { return nullptr; }
  Json operator()(capture::ValueRef ref) const { return {{"t", Number(ref)}}; }
  Json operator()(const std::vector<std::optional<capture::ValueRef>>& list) const {
    Json numbers = Json::array();
    for (const std::optional<capture::ValueRef>& ref : list)
      numbers.push_back(ref ? Json(Number(*ref)) : Json(nullptr));
    return {{"ts", numbers}};
  }
  Json operator()(const Expr& e) const { return Integer(e); }
  Json operator()(double v) const { return {{"f", FloatText(v)}}; }
  Json operator()(bool v) const { return v; }
  Json operator()(const std::string& v) const { return v; }
  Json operator()(capture::Complex v) const { return {{"c", Json::array({FloatText(v.re), FloatText(v.im)})}}; }
  Json operator()(ir::DType v) const { return {{"dtype", std::string(ir::DTypeName(v))}}; }
  Json operator()(const Enum& v) const { return {{EnumKey(v.kind), v.name}}; }
  Json operator()(const std::vector<Expr>& list) const {
    Json integers = Json::array();
    for (const Expr& e : list) integers.push_back(Integer(e));
    return {{"is", integers}};
  }
  Json operator()(const std::vector<double>& list) const {
    Json floats = Json::array();
    for (double v : list) floats.push_back(FloatText(v));
    return {{"fs", floats}};
  }
  Json operator()(const std::vector<bool>& list) const {
    Json bools = Json::array();
    for (bool v : list) bools.push_back(v);
    return {{"bs", bools}};
  }
};

}  // namespace

ExternCall WriteExternCall(const AtenNode& node) {
  ExternCall call;
  Json args = Json::array();
  for (const capture::NamedArgument& arg : node.args) {
    Json entry = {{"n", arg.name}, {"v", std::visit(ArgumentWriter{call.operands}, arg.value)}};
    if (arg.keyword) entry["k"] = 1;
    args.push_back(std::move(entry));
  }
  Json none = Json::array();
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (node.results[i] < 0) none.push_back(i);
  }
  Json json = {{"op", node.op}, {"args", args}, {"list", node.result_is_list}, {"none", none}};
  call.json = json.dump(-1, ' ', false, Json::error_handler_t::replace);  // never throws: bad UTF-8 is replaced
  return call;
}

}  // namespace preheat::decompose
