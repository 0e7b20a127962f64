#include "client/compilectl/input_spec.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/compilectl/model.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

struct InputShape {
  std::string name;
  ir::DType dtype;
  std::vector<int64_t> sizes;
};

absl::Status Invalid(const std::string& text, std::string kind, std::string message, std::string fix = "") {
  return MakeError(absl::StatusCode::kInvalidArgument, {.kind = std::move(kind),
                                                        .message = std::move(message),
                                                        .where = absl::StrCat("--input ", text),
                                                        .fix = std::move(fix)});
}

absl::StatusOr<InputShape> Parse(const std::string& text) {
  const absl::Status malformed =
      Invalid(text, "malformed_input", absl::StrCat("--input ", text, " is not NAME=DTYPE[SIZE,SIZE,...]"),
              "write --input x=f32[8,128]");
  const size_t equals = text.find('='), bracket = text.find('[');
  if (equals == std::string::npos || bracket == std::string::npos || bracket < equals || text.back() != ']')
    return malformed;
  InputShape shape;
  shape.name = text.substr(0, equals);
  const std::optional<ir::DType> dtype = ir::ParseDType(text.substr(equals + 1, bracket - equals - 1));
  if (!dtype)
    return Invalid(text, "unknown_dtype",
                   absl::StrCat("\"", text.substr(equals + 1, bracket - equals - 1), "\" is no element type"),
                   "such as f32, bf16, i64 or bool");
  shape.dtype = *dtype;
  const std::string inside = text.substr(bracket + 1, text.size() - bracket - 2);
  for (absl::string_view size : absl::StrSplit(inside, ',', absl::SkipWhitespace())) {
    if (!absl::SimpleAtoi(size, &shape.sizes.emplace_back()) || shape.sizes.back() < 0) return malformed;
  }
  return shape;
}

// What people call the symbol.
std::string NameOf(const capture::AtenProgram& program, const std::string& symbol) {
  const auto it = program.dim_names.find(symbol);
  return it == program.dim_names.end() ? symbol : it->second;
}

absl::StatusOr<size_t> FindInput(const std::string& text, const std::string& name,
                                 const capture::AtenProgram& program) {
  std::vector<std::string> names;
  for (size_t i = 0; i < program.inputs.size() && i < program.debug.input_names.size(); ++i) {
    if (program.debug.input_names[i] == name) return i;
    if (program.inputs[i].kind == ir::InputKind::kUser) names.push_back(program.debug.input_names[i]);
  }
  return Invalid(text, "unknown_input",
                 absl::StrCat("the program has no input \"", name, "\"", DidYouMean(name, names)),
                 absl::StrCat("its inputs are ", absl::StrJoin(names, ", ")));
}

}  // namespace

absl::Status AddInputShape(const std::string& text, const capture::AtenProgram& program,
                           std::map<std::string, int64_t>& dims) {
  ASSIGN_OR_RETURN(InputShape shape, Parse(text));
  ASSIGN_OR_RETURN(size_t index, FindInput(text, shape.name, program));
  const ir::TensorType& type = program.values[static_cast<size_t>(program.inputs[index].value)].type.tensor;
  if (type.dtype != shape.dtype) {
    return Invalid(
        text, "dtype_mismatch",
        absl::StrCat("input ", shape.name, " is ", ir::DTypeName(type.dtype), ", not ", ir::DTypeName(shape.dtype)));
  }
  if (type.shape.size() != shape.sizes.size()) {
    return Invalid(
        text, "shape_mismatch",
        absl::StrCat("input ", shape.name, " has ", type.shape.size(), " dimensions, not ", shape.sizes.size()));
  }
  for (size_t d = 0; d < shape.sizes.size(); ++d) {
    const std::optional<int64_t> fixed = type.shape[d].constant();
    if (fixed && *fixed != shape.sizes[d]) {
      return Invalid(text, "shape_mismatch",
                     absl::StrCat("dimension ", d, " of input ", shape.name, " is fixed to ", *fixed),
                     "export it as a dynamic dimension");
    }
    const std::optional<std::string> symbol = type.shape[d].symbol();
    if (!symbol) continue;
    const auto [it, added] = dims.emplace(NameOf(program, *symbol), shape.sizes[d]);
    if (!added && it->second != shape.sizes[d]) {
      return Invalid(text, "conflicting_dimension",
                     absl::StrCat("dimension ", it->first, " would be both ", it->second, " and ", shape.sizes[d]));
    }
  }
  return absl::OkStatus();
}

}  // namespace preheat::cli
