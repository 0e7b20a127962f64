#include "compiler/codegen/cpu/math_functions.h"

#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/codegen/cpu/math_text.h"
#include "compiler/support/error.h"

namespace preheat {
namespace {

struct Definition {
  std::string source;
  std::vector<std::string> names;  // of ours, in the order of the text; the first is the defined one
};

using Table = std::map<std::string, Definition, std::less<>>;

bool IsIdentifierChar(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// The identifiers in `text` that start with "ph_" or "phx_".
std::vector<std::string> Names(absl::string_view text) {
  std::vector<std::string> names;
  for (size_t at = text.find("ph"); at != absl::string_view::npos; at = text.find("ph", at + 1)) {
    const absl::string_view rest = text.substr(at);
    if (at > 0 && IsIdentifierChar(text[at - 1])) continue;
    if (!absl::StartsWith(rest, "ph_") && !absl::StartsWith(rest, "phx_")) continue;
    size_t size = 0;
    while (size < rest.size() && IsIdentifierChar(rest[size])) ++size;
    names.emplace_back(rest.substr(0, size));
  }
  return names;
}

void AddDefinition(const std::string& source, Table* table) {
  if (source.empty()) return;
  Definition definition{source, Names(source)};
  const std::string name = definition.names.front();
  table->emplace(name, std::move(definition));
}

// Splits by the rules of math_text.h.
void AddText(const std::string& text, Table* table) {
  std::string source;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const bool starts = absl::StartsWith(line, "FN ") || absl::StartsWith(line, "static const ");
    if (starts || line.empty()) {
      AddDefinition(source, table);
      source.clear();
    }
    if (absl::ConsumePrefix(&line, "FN ")) absl::StrAppend(&source, "static inline __attribute__((always_inline)) ");
    if (starts || !source.empty()) absl::StrAppend(&source, line, "\n");
  }
  AddDefinition(source, table);
}

const Table& Functions() {
  static const Table& table = *[] {  // never destroyed: may be used at exit
    auto* functions = new Table;
    AddText(FloatCommonMathText(), functions);
    AddText(F32MathText(), functions);
    AddText(F64MathText(), functions);
    AddText(ConversionMathText(), functions);
    AddText(IntegerMathText(), functions);
    return functions;
  }();
  return table;
}

// Appends the definition after all that it needs. There are no cycles: nothing here recurses.
void AppendWithNeeds(const std::string& name, std::set<std::string>* done, std::string* out) {
  if (!done->insert(name).second) return;
  const Definition& definition = Functions().at(name);
  for (const std::string& needed : definition.names) AppendWithNeeds(needed, done, out);
  out->append(definition.source);
}

}  // namespace

absl::StatusOr<std::string> MathSource(const std::set<std::string>& names) {
  std::set<std::string> done;
  std::string out;
  for (const std::string& name : names) {
    if (!HasMath(name)) {
      return MakeError(absl::StatusCode::kInvalidArgument,
                       {.kind = "unknown_math_function",
                        .message = absl::StrCat("CPU kernels have no function named ", name),
                        .where = "",
                        .fix = "use a name that compiler/codegen/cpu/math_functions.h lists"});
    }
    AppendWithNeeds(name, &done, &out);
  }
  return out;
}

bool HasMath(absl::string_view name) {
  return absl::StartsWith(name, "ph_") && Functions().find(std::string(name)) != Functions().end();
}

std::vector<std::string> MathNames() {
  std::vector<std::string> names;
  for (const auto& [name, definition] : Functions()) {
    if (HasMath(name)) names.push_back(name);
  }
  return names;
}

}  // namespace preheat
