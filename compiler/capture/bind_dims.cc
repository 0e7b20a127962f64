#include "compiler/capture/bind_dims.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/capture/limits.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

using ir::Expr;
using Substitution = std::map<std::string, Expr>;

std::string NameOf(const AtenProgram& program, const std::string& symbol) {
  auto it = program.dim_names.find(symbol);
  return it == program.dim_names.end() ? symbol : it->second;
}

// Every name a symbol answers to.
std::map<std::string, std::string> SymbolsByName(const AtenProgram& program) {
  std::map<std::string, std::string> names;
  for (const auto& [symbol, name] : program.dim_names) names.emplace(name, symbol);
  for (const ir::Symbol& symbol : program.symbols) names.emplace(symbol.name, symbol.name);
  for (size_t i = 0; i < program.inputs.size() && i < program.debug.input_names.size(); ++i) {
    const ir::TensorType& type = program.values[program.inputs[i].value].type.tensor;
    for (int axis = 0; axis < type.rank(); ++axis) {
      if (std::optional<std::string> symbol = type.shape[axis].symbol()) {
        names.emplace(absl::StrCat(program.debug.input_names[i], ".", axis), *symbol);
      }
    }
  }
  return names;
}

absl::Status UnknownDimension(const AtenProgram& program, const std::string& name) {
  std::vector<std::string> right = DimensionNames(program);
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = "unknown_dimension",
       .message = right.empty() ? absl::StrCat("\"", name, "\" is given, but the program has no symbolic dimension")
                                : absl::StrCat("the program has no dimension \"", name, "\"; it has ",
                                               absl::StrJoin(right, ", ")),
       .where = name,
       .fix = right.empty() ? "leave the dimension out, or export with dynamic shapes" : "use one of these names"});
}

absl::Status OutOfRange(const std::string& name, int64_t value, absl::string_view allowed) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "dimension_out_of_range",
                    .message = absl::StrCat("dimension \"", name, "\" cannot be ", value, ": ", allowed),
                    .where = name,
                    .fix = "take a value in the range with which the model was exported"});
}

absl::Status CheckRange(const ir::Symbol& symbol, const std::string& name, int64_t value) {
  if (value < symbol.min || value > symbol.max.value_or(kMaxMagnitude)) {
    std::string range = symbol.max ? absl::StrCat("it lies between ", symbol.min, " and ", *symbol.max)
                                   : absl::StrCat("it is at least ", symbol.min);
    return OutOfRange(name, value, range);
  }
  return absl::OkStatus();
}

absl::StatusOr<Substitution> Bind(const AtenProgram& program, const std::map<std::string, int64_t>& dims) {
  std::map<std::string, std::string> by_name = SymbolsByName(program);
  Substitution bound;
  for (const auto& [name, value] : dims) {
    auto it = by_name.find(name);
    if (it == by_name.end()) return UnknownDimension(program, name);
    for (const ir::Symbol& symbol : program.symbols) {
      if (symbol.name == it->second) RETURN_IF_ERROR(CheckRange(symbol, name, value));
    }
    auto [at, fresh] = bound.emplace(it->second, Expr(value));
    if (!fresh && at->second != Expr(value)) {
      return MakeError(absl::StatusCode::kInvalidArgument,
                       {.kind = "conflicting_dimension",
                        .message = absl::StrCat("dimension \"", name, "\" is also given as ", at->second.ToString()),
                        .where = name,
                        .fix = "give each dimension one value"});
    }
  }
  return bound;
}

void SubstituteIn(Argument& argument, const Substitution& with) {
  if (Expr* e = std::get_if<Expr>(&argument)) *e = e->Substitute(with);
  if (auto* list = std::get_if<std::vector<Expr>>(&argument)) {
    for (Expr& e : *list) e = e.Substitute(with);
  }
}

void SubstituteIn(AtenProgram& program, const Substitution& with) {
  for (AtenValue& value : program.values) {
    for (Expr& size : value.type.tensor.shape) size = size.Substitute(with);
    for (Expr& stride : value.type.strides) stride = stride.Substitute(with);
    value.expr = value.expr.Substitute(with);
  }
  for (AtenNode& node : program.nodes) {
    for (NamedArgument& arg : node.args) SubstituteIn(arg.value, with);
  }
  for (Expr& guard : program.guards) guard = guard.Substitute(with);
}

// Inputs that were a bound symbol: nothing is left to pass.
void DropFixedSizes(AtenProgram& program) {
  std::vector<int> place(program.inputs.size(), -1);
  std::vector<InputSpec> inputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const AtenValue& value = program.values[program.inputs[i].value];
    if (value.is_size && value.expr.is_constant()) continue;
    place[i] = static_cast<int>(inputs.size());
    inputs.push_back(program.inputs[i]);
    if (i < program.debug.input_names.size()) names.push_back(program.debug.input_names[i]);
  }
  for (OutputSpec& output : program.outputs) {
    if (output.mutates >= 0) output.mutates = place[output.mutates];
    if (output.aliases_input >= 0) output.aliases_input = place[output.aliases_input];
  }
  program.inputs = std::move(inputs);
  program.debug.input_names = std::move(names);
}

// Symbols left over become d0, d1, ...; the names in `with` are free for it afterwards.
void Renumber(AtenProgram& program, Substitution& with) {
  std::vector<ir::Symbol> left;
  std::map<std::string, std::string> names;
  for (const ir::Symbol& symbol : program.symbols) {
    if (with.count(symbol.name) != 0) continue;
    ir::Symbol renamed = symbol;
    renamed.name = absl::StrCat("d", left.size());
    if (auto it = program.dim_names.find(symbol.name); it != program.dim_names.end()) names[renamed.name] = it->second;
    with.emplace(symbol.name, Expr::Symbol(renamed.name));
    left.push_back(std::move(renamed));
  }
  program.symbols = std::move(left);
  program.dim_names = std::move(names);
}

absl::Status CheckGuards(const AtenProgram& program, const std::map<std::string, int64_t>& dims) {
  for (const Expr& guard : program.guards) {
    if (guard.constant().value_or(0) >= 0) continue;
    std::string given = absl::StrJoin(dims, ", ", absl::PairFormatter(" = "));
    return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "dimension_out_of_range",
                                                          .message = absl::StrCat("the program does not allow ", given),
                                                          .where = "",
                                                          .fix = "take values for which the model was exported"});
  }
  return absl::OkStatus();
}

absl::Status CheckShapes(const AtenProgram& program) {
  for (const AtenValue& value : program.values) RETURN_IF_ERROR(CheckShape(value.type.tensor.shape));
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> DimensionNames(const AtenProgram& program) {
  std::vector<std::string> names;
  for (const ir::Symbol& symbol : program.symbols) names.push_back(NameOf(program, symbol.name));
  return names;
}

absl::Status BindDims(AtenProgram& program, const std::map<std::string, int64_t>& dims) {
  ASSIGN_OR_RETURN(Substitution with, Bind(program, dims));
  AtenProgram bound = program;
  Renumber(bound, with);
  SubstituteIn(bound, with);
  RETURN_IF_ERROR(CheckGuards(bound, dims));
  RETURN_IF_ERROR(CheckShapes(bound));
  DropFixedSizes(bound);
  program = std::move(bound);
  return absl::OkStatus();
}

}  // namespace preheat::capture
