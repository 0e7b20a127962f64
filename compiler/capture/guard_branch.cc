#include "compiler/capture/guard_branch.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace preheat::capture {
namespace {

using ir::Expr;
using OptionalRefs = std::vector<std::optional<ValueRef>>;

// What makes an operator fail, and what does not.
struct Risk {
  absl::string_view op, argument;  // operators whose names begin so
  int64_t harmless;
};
constexpr Risk kRisks[] = {
    {"aten.embedding", "indices", 0}, {"aten.index", "index", 0},
    {"aten.index", "indices", 0},     {"aten.gather", "index", 0},
    {"aten.take", "index", 0},        {"aten.take_along_dim", "indices", 0},
    {"aten.put", "index", 0},         {"aten.scatter", "index", 0},
    {"aten.nll_loss", "target", 0},   {"aten.cross_entropy", "target", 0},
    {"aten.div", "other", 1},         {"aten.floor_divide", "other", 1},
    {"aten.remainder", "other", 1},   {"aten.fmod", "other", 1},
};

class Guard {
 public:
  Guard(AtenProgram& program, int condition, bool taken) : program_(program), condition_(condition), taken_(taken) {}

  void Run(size_t first) {
    std::vector<AtenNode> nodes(program_.nodes.begin() + static_cast<int64_t>(first), program_.nodes.end());
    program_.nodes.resize(first);
    for (AtenNode& node : nodes) {
      for (const Risk& risk : kRisks) {
        if (absl::StartsWith(node.op, risk.op)) GuardArgument(node, risk);
      }
      program_.nodes.push_back(std::move(node));
    }
  }

 private:
  void GuardArgument(AtenNode& node, const Risk& risk) {
    for (NamedArgument& argument : node.args) {
      if (argument.name != risk.argument) continue;
      if (auto* one = std::get_if<ValueRef>(&argument.value)) one->id = Guarded(node, one->id, risk.harmless);
      if (auto* list = std::get_if<OptionalRefs>(&argument.value)) {
        for (std::optional<ValueRef>& item : *list) {
          if (item) item->id = Guarded(node, item->id, risk.harmless);
        }
      }
    }
  }

  // The value, or what is harmless.
  int Guarded(const AtenNode& node, int id, int64_t harmless) {
    const AtenValue value = program_.values[id];
    const int rank = program_.values[condition_].type.tensor.rank();
    if (value.is_size || !ir::IsInteger(value.type.tensor.dtype) || value.type.tensor.rank() < rank) return id;
    program_.values.push_back(value);
    program_.debug.value_names.push_back("");
    AtenNode where{.op = taken_ ? "aten.where.ScalarOther" : "aten.where.ScalarSelf", .args = {}, .results = {}};
    const Argument own = ValueRef{id}, other = Expr(harmless);
    where.args = {{.name = "condition", .value = ValueRef{condition_}},
                  {.name = "self", .value = taken_ ? own : other},
                  {.name = "other", .value = taken_ ? other : own}};
    const int guarded = static_cast<int>(program_.values.size()) - 1;
    where.results = {guarded};
    where.debug_id = node.debug_id;
    program_.nodes.push_back(std::move(where));
    return guarded;
  }

  AtenProgram& program_;
  const int condition_;
  const bool taken_;
};

}  // namespace

void GuardBranch(AtenProgram& program, size_t first, int condition, bool taken) {
  Guard(program, condition, taken).Run(first);
}

}  // namespace preheat::capture
