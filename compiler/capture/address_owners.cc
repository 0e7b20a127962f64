#include "compiler/capture/address_owners.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/capture/mutating_ops.h"
#include "compiler/capture/views.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

using ir::Expr;

constexpr int kUnknown = -1;

absl::Status UnknownOwner(const AtenNode& node) {
  return MakeError(absl::StatusCode::kUnimplemented,
                   {.kind = "unsupported_strides",
                    .message = absl::StrCat(node.op, " addresses memory of which it is not known what it holds"),
                    .where = node.op,
                    .fix = "index the tensor instead of addressing its memory"});
}

class Owners {
 public:
  explicit Owners(AtenProgram& program) : program_(program), owner_(program.values.size(), kUnknown) {
    for (const InputSpec& input : program.inputs) owner_[input.value] = input.value;
    for (const ConstantData& constant : program.constants) owner_[constant.value] = constant.value;
  }

  // The value whose memory this one is a view of, itself perhaps.
  int Of(int value) const { return owner_[value]; }

  void Add(const AtenNode& node) {
    const int shared = SharedWith(node);
    for (int result : node.results) {
      if (result >= 0) owner_[result] = shared == kOwn ? result : shared;
    }
  }

 private:
  static constexpr int kOwn = -2;

  int SharedWith(const AtenNode& node) const {
    if (OutToValue(node.op)) {
      const Argument* out = node.Find("out");
      const ValueRef* ref = out == nullptr ? nullptr : std::get_if<ValueRef>(out);
      return ref == nullptr ? kUnknown : owner_[ref->id];
    }
    const int operand = FirstOperand(node);
    if (InPlaceToValue(node.op)) return operand < 0 ? kUnknown : owner_[operand];
    switch (AliasingOf(program_, node)) {
      case Aliasing::kFresh: return kOwn;
      case Aliasing::kUnknown: return kUnknown;
      default: return SameDType(operand, node) ? owner_[operand] : kUnknown;  // offsets count elements
    }
  }

  bool SameDType(int operand, const AtenNode& node) const {
    const int result = node.results.empty() ? -1 : node.results[0];
    return result < 0 || program_.values[operand].type.tensor.dtype == program_.values[result].type.tensor.dtype;
  }

  const AtenProgram& program_;
  std::vector<int> owner_;
};

void SetArgument(AtenNode& node, const std::string& name, Argument value) {
  for (NamedArgument& arg : node.args) {
    if (arg.name != name) continue;
    arg.value = std::move(value);
    return;
  }
  node.args.push_back({.name = name, .value = std::move(value), .keyword = false});
}

}  // namespace

bool AddressesMemory(const std::string& op) {
  static const auto* names = new std::set<std::string>{"aten.as_strided.default", "aten.as_strided_copy.default",
                                                       "aten.as_strided_scatter.default"};
  return names->count(op) != 0;
}

absl::Status AddressOwners(AtenProgram& program, const std::vector<Expr>& offsets) {
  Owners owners(program);
  for (AtenNode& node : program.nodes) {
    if (AddressesMemory(node.op)) {
      const int view = FirstOperand(node);
      // A scatter's result has its operand's shape, whatever it is a view of.
      const bool scatters = node.op == "aten.as_strided_scatter.default";
      const int owner = view < 0 ? kUnknown : scatters ? view : owners.Of(view);
      if (owner == kUnknown) return UnknownOwner(node);
      const Argument* given = node.Find("storage_offset");
      const Expr* start = given == nullptr ? nullptr : std::get_if<Expr>(given);
      const Expr offset = (start != nullptr ? *start : offsets[view]) - offsets[owner];
      SetArgument(node, "self", ValueRef{owner});
      SetArgument(node, "storage_offset", offset);
    }
    owners.Add(node);
  }
  return absl::OkStatus();
}

}  // namespace preheat::capture
