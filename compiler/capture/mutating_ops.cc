#include "compiler/capture/mutating_ops.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace preheat::capture {
namespace {

struct Name {
  std::string space, base, overload;  // aten, add_, Tensor
};

std::optional<Name> Split(const std::string& op) {
  size_t first = op.find('.'), last = op.rfind('.');
  if (first == std::string::npos || first == last) return std::nullopt;
  return Name{op.substr(0, first), op.substr(first + 1, last - first - 1), op.substr(last + 1)};
}

// Where dropping the underscore does not give an operator's name.
const std::map<std::string, std::string>& IrregularInPlace() {
  static const auto* table = new std::map<std::string, std::string>{
      {"aten.normal_.default", "aten.normal_functional.default"},
      {"aten.bernoulli_.float", "aten.bernoulli.p"},
      {"aten.bernoulli_.Tensor", "aten.bernoulli.Tensor"},
      {"aten._index_put_impl_.default", "aten.index_put.default"},
  };
  return *table;
}

const std::map<std::string, std::string>& IrregularOut() {
  static const auto* table = new std::map<std::string, std::string>{
      {"aten.sum.IntList_out", "aten.sum.dim_IntList"},
      {"aten.mean.out", "aten.mean.dim"},
      {"aten.prod.int_out", "aten.prod.dim_int"},
      {"aten.any.out", "aten.any.dim"},
      {"aten.all.out", "aten.all.dim"},
      {"aten.where.self_out", "aten.where.self"},
      {"aten.div.out_mode", "aten.div.Tensor_mode"},
      {"aten.clamp.out", "aten.clamp.default"},
      {"aten.cat.out", "aten.cat.default"},
      {"aten.stack.out", "aten.stack.default"},
      {"aten.arange.start_out", "aten.arange.start_step"},
  };
  return *table;
}

// Binary operators whose form of two tensors is the overload Tensor.
bool HasTensorOverload(absl::string_view base) {
  static const auto* names = new std::set<std::string>{"add",  "sub",         "mul",        "div",         "remainder",
                                                       "fmod", "bitwise_and", "bitwise_or", "bitwise_xor", "lerp"};
  return names->count(std::string(base)) != 0;
}

}  // namespace

std::optional<std::string> InPlaceToValue(const std::string& op) {
  if (auto it = IrregularInPlace().find(op); it != IrregularInPlace().end()) return it->second;
  std::optional<Name> name = Split(op);
  if (!name || name->space != "aten" || !absl::EndsWith(name->base, "_")) return std::nullopt;
  if (absl::EndsWith(name->base, "__")) {  // __iadd__ writes, __and__ does not
    if (!absl::StartsWith(name->base, "__i") || name->base == "__index__") return std::nullopt;
    return absl::StrCat("aten.__", name->base.substr(3), ".", name->overload);
  }
  return absl::StrCat("aten.", name->base.substr(0, name->base.size() - 1), ".", name->overload);
}

std::optional<std::string> OutToValue(const std::string& op) {
  if (auto it = IrregularOut().find(op); it != IrregularOut().end()) return it->second;
  std::optional<Name> name = Split(op);
  if (!name || name->space != "aten") return std::nullopt;
  if (name->overload == "out")
    return absl::StrCat("aten.", name->base, HasTensorOverload(name->base) ? ".Tensor" : ".default");
  if (!absl::EndsWith(name->overload, "_out")) return std::nullopt;
  return absl::StrCat("aten.", name->base, ".", name->overload.substr(0, name->overload.size() - 4));
}

bool ChangesMetadata(const std::string& op) {
  static const auto* names = new std::set<std::string>{
      "aten.squeeze_",  "aten.unsqueeze_", "aten.t_",          "aten.transpose_", "aten.resize_",  "aten.set_",
      "aten.swapaxes_", "aten.swapdims_",  "aten.as_strided_", "aten.resize_as_", "aten.squeeze__"};
  std::optional<Name> name = Split(op);
  if (!name) return false;
  const bool lists = absl::StartsWith(name->base, "_fused_") || absl::StartsWith(name->base, "_foreach_");
  return names->count(absl::StrCat(name->space, ".", name->base)) != 0 ||
         (lists && absl::EndsWith(name->base, "_"));  // several tensors at once
}

bool UpdatesStatistics(const AtenNode& node) {
  bool known = node.op == "aten.batch_norm.default" || node.op == "aten.native_batch_norm.default" ||
               node.op == "aten._native_batch_norm_legit.default";
  if (!known) return false;
  const Argument* training = node.Find("training");
  const Argument* mean = node.Find("running_mean");
  return training != nullptr && mean != nullptr && std::holds_alternative<ValueRef>(*mean) &&
         std::holds_alternative<bool>(*training) && std::get<bool>(*training);
}

bool Promotes(const std::string& value_op) {
  static const auto* bases = new std::set<std::string>{
      "add",     "sub",   "mul",     "div",     "pow",  "fmod", "lerp",  "remainder",    "addcmul",
      "addcdiv", "atan2", "maximum", "minimum", "fmax", "fmin", "hypot", "floor_divide", "xlogy"};
  std::optional<Name> name = Split(value_op);
  return name && bases->count(name->base) != 0;
}

}  // namespace preheat::capture
