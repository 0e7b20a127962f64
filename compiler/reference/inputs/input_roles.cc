#include "compiler/reference/inputs/input_roles.h"

#include <algorithm>
#include <set>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace preheat::reference {
namespace {

using capture::Argument;
using capture::AtenNode;
using capture::AtenProgram;
using capture::ValueRef;

// "aten.index.Tensor" -> "index"; empty for operators that are not ATen's.
absl::string_view BaseName(absl::string_view op) {
  if (!absl::StartsWith(op, "aten.")) return {};
  op.remove_prefix(5);
  return op.substr(0, op.find('.'));
}

// Operators whose result holds elements of their first tensors, moved or converted.
const std::set<absl::string_view>& Movers() {
  static const auto* names = new std::set<absl::string_view>{"view",
                                                             "_unsafe_view",
                                                             "reshape",
                                                             "_reshape_alias",
                                                             "flatten",
                                                             "unflatten",
                                                             "slice",
                                                             "select",
                                                             "expand",
                                                             "expand_as",
                                                             "permute",
                                                             "transpose",
                                                             "t",
                                                             "unsqueeze",
                                                             "squeeze",
                                                             "alias",
                                                             "clone",
                                                             "contiguous",
                                                             "detach",
                                                             "detach_",
                                                             "to",
                                                             "_to_copy",
                                                             "type_as",
                                                             "repeat",
                                                             "narrow",
                                                             "unbind",
                                                             "split",
                                                             "split_with_sizes",
                                                             "chunk",
                                                             "cat",
                                                             "stack",
                                                             "flip",
                                                             "roll",
                                                             "lift_fresh_copy",
                                                             "lift_fresh",
                                                             "lift",
                                                             "movedim",
                                                             "swapaxes",
                                                             "view_copy",
                                                             "gather",
                                                             "index_select",
                                                             "tile",
                                                             "as_strided",
                                                             "unfold",
                                                             "long",
                                                             "int"};
  return *names;
}

class RoleFinder {
 public:
  RoleFinder(const AtenProgram& program, const std::function<int64_t(const std::string&)>& symbol)
      : program_(program), symbol_(symbol), roles_(program.values.size()) {}

  std::vector<InputRole> Find() {
    for (size_t i = program_.nodes.size(); i-- > 0;) {
      const AtenNode& node = program_.nodes[i];
      Consume(node);
      PassThrough(node);
    }
    std::vector<InputRole> out;
    for (const capture::InputSpec& input : program_.inputs) out.push_back(roles_[input.value]);
    return out;
  }

 private:
  static std::vector<int> Refs(const Argument* a) {
    std::vector<int> ids;
    if (a == nullptr) return ids;
    if (auto* ref = std::get_if<ValueRef>(a)) ids.push_back(ref->id);
    if (auto* list = std::get_if<std::vector<std::optional<ValueRef>>>(a)) {
      for (const auto& r : *list) ids.push_back(r ? r->id : -1);
    }
    return ids;
  }

  std::optional<int64_t> Number(const Argument* a) const {
    if (a == nullptr) return std::nullopt;
    auto* e = std::get_if<ir::Expr>(a);
    return e == nullptr ? std::nullopt : std::optional<int64_t>(e->Evaluate(symbol_));
  }

  // Size `dim` of the tensor that the argument names.
  std::optional<int64_t> SizeOf(const AtenNode& node, const char* tensor, int64_t dim) const {
    std::vector<int> ids = Refs(node.Find(tensor));
    if (ids.empty() || ids[0] < 0) return std::nullopt;
    const std::vector<ir::Expr>& shape = program_.values[ids[0]].type.tensor.shape;
    if (dim < 0) dim += shape.size();
    if (dim < 0 || dim >= static_cast<int64_t>(shape.size())) return std::nullopt;
    return shape[dim].Evaluate(symbol_);
  }

  void Limit(int id, std::optional<int64_t> bound) {
    if (id < 0 || !bound) return;
    std::optional<int64_t>& known = roles_[id].bound;
    known = known ? std::min(*known, *bound) : *bound;
  }

  void Consume(const AtenNode& node) {
    const absl::string_view name = BaseName(node.op);
    for (int id : Refs(node.Find("running_var"))) {
      if (id >= 0) roles_[id].variance = true;
    }
    if (name == "embedding" || name == "embedding_bag" || name == "_embedding_bag") {
      for (int id : Refs(node.Find("indices"))) Limit(id, SizeOf(node, "weight", 0));
    } else if (name == "embedding_dense_backward") {
      for (int id : Refs(node.Find("indices"))) Limit(id, Number(node.Find("num_weights")));
    } else if (name == "one_hot") {
      for (int id : Refs(node.Find("self"))) Limit(id, Number(node.Find("num_classes")));
    } else if (absl::StrContains(name, "nll_loss") || name == "cross_entropy_loss") {
      for (int id : Refs(node.Find("target"))) Limit(id, SizeOf(node, "self", 1));
    } else if (node.Find("index") != nullptr &&
               node.Find("dim") != nullptr) {  // gather, scatter, index_select, index_add, ...
      for (int id : Refs(node.Find("index"))) Limit(id, SizeOf(node, "self", Number(node.Find("dim")).value_or(0)));
    } else if (node.Find("indices") != nullptr && node.Find("self") != nullptr) {  // index, index_put and their kin
      const std::vector<int> ids = Refs(node.Find("indices"));
      for (size_t d = 0; d < ids.size(); ++d) Limit(ids[d], SizeOf(node, "self", d));
    } else if (name == "take") {
      Limit(Refs(node.Find("index")).front(), 1);
    }
  }

  // What the results must be, the operands that give their elements must be too.
  void PassThrough(const AtenNode& node) {
    const absl::string_view name = BaseName(node.op);
    const bool adds = name == "add" || name == "sub";
    if (!adds && Movers().count(name) == 0) return;
    InputRole role;
    for (int id : node.results) {
      if (id < 0) continue;
      role.variance |= roles_[id].variance;
      if (roles_[id].bound) role.bound = std::min(role.bound.value_or(*roles_[id].bound), *roles_[id].bound);
    }
    const Argument* source = node.Find("self") != nullptr ? node.Find("self") : node.Find("tensors");
    if (adds) {
      std::optional<int64_t> other = Number(node.Find("other"));
      if (!role.bound || !other) return;
      role.bound = std::max<int64_t>(1, *role.bound - (name == "add" ? *other : 0));
    }
    for (int id : Refs(source)) {
      if (id < 0) continue;
      roles_[id].variance |= role.variance;
      Limit(id, role.bound);
    }
  }

  const AtenProgram& program_;
  const std::function<int64_t(const std::string&)>& symbol_;
  std::vector<InputRole> roles_;  // by value
};

}  // namespace

std::vector<InputRole> FindInputRoles(const AtenProgram& program,
                                      const std::function<int64_t(const std::string&)>& symbol) {
  return RoleFinder(program, symbol).Find();
}

}  // namespace preheat::reference
