#include "compiler/ir/print.h"

#include <charconv>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace preheat::ir {
namespace {

template <typename T, typename F>
std::string Join(absl::string_view open, const std::vector<T>& list, absl::string_view close, F text) {
  return absl::StrCat(
      open, absl::StrJoin(list, ", ", [&](std::string* out, const T& item) { out->append(text(item)); }), close);
}

std::string Exprs(absl::string_view open, const std::vector<Expr>& list, absl::string_view close) {
  return Join(open, list, close, [](const Expr& e) { return e.ToString(); });
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c >= 0x20 && c < 0x7f) {
      out += c;
    } else {
      absl::StrAppend(&out, "\\x", absl::BytesToHexString(absl::string_view(&c, 1)));
    }
  }
  return out + "\"";
}

struct AttrPrinter {
  bool bytes;  // a string holds data rather than text

  std::string operator()(int64_t v) const { return absl::StrCat(v); }
  std::string operator()(double v) const { return PrintDouble(v); }
  std::string operator()(const std::string& v) const {
    return bytes ? absl::StrCat("x\"", absl::BytesToHexString(v), "\"") : Quoted(v);
  }
  std::string operator()(DType v) const { return std::string(DTypeName(v)); }
  std::string operator()(const Expr& v) const { return absl::StrCat("<", v.ToString(), ">"); }
  std::string operator()(const std::vector<int64_t>& v) const { return absl::StrCat("[", absl::StrJoin(v, ", "), "]"); }
  std::string operator()(const std::vector<Expr>& v) const { return Exprs("(", v, ")"); }
  std::string operator()(const std::vector<std::string>& v) const { return Join("{", v, "}", Quoted); }
};

std::string PrintAttrs(const Node& node) {
  if (node.attrs().empty()) return "";
  std::string text;
  for (const auto& [name, value] : node.attrs()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, " = ",
                    std::visit(AttrPrinter{node.op() == Op::kConstant && name == "data"}, value));
  }
  return absl::StrCat(" {", text, "}");
}

std::string PrintInput(const Value& value, const GraphInput& input) {
  std::string text = absl::StrCat(PrintValue(value), " = input ", InputKindName(input.kind), " ", input.type.ToString(),
                                  " strides ", Exprs("[", input.strides, "]"), " align ", input.alignment);
  if (input.frozen) absl::StrAppend(&text, " frozen");
  if (input.is_size) absl::StrAppend(&text, " size ", input.symbol);
  return text;
}

std::string PrintOutput(const GraphOutput& output) {
  std::string text = absl::StrCat("output ", PrintValue(output.value), " strides ", Exprs("[", output.strides, "]"));
  if (output.mutates >= 0) absl::StrAppend(&text, " mutates ", output.mutates);
  if (output.aliases_input >= 0) absl::StrAppend(&text, " aliases ", output.aliases_input);
  return text;
}

}  // namespace

absl::string_view InputKindName(InputKind kind) {
  switch (kind) {
    case InputKind::kParameter: return "parameter";
    case InputKind::kBuffer: return "buffer";
    case InputKind::kUser: return "user";
    case InputKind::kConstant: return "constant";
  }
  return "";
}

std::string PrintDouble(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";  // an int has neither
  return text;
}

std::string PrintValue(const Value& value) {
  if (!value) return "%none";
  return value.index == 0 ? absl::StrCat("%", value.node->id()) : absl::StrCat("%", value.node->id(), ".", value.index);
}

std::string Print(const Node& node) {
  std::string operands = absl::StrJoin(
      node.operands(), ", ", [](std::string* out, const Value& operand) { out->append(PrintValue(operand)); });
  if (!operands.empty()) operands = absl::StrCat("(", operands, ")");
  std::string types = absl::StrJoin(node.results(), ", ",
                                    [](std::string* out, const TensorType& type) { out->append(type.ToString()); });
  return absl::StrCat("%", node.id(), " = ", Info(node.op()).name, operands, PrintAttrs(node),
                      types.empty() ? "" : " : ", types);
}

std::string Print(const Graph& graph) {
  std::string text;
  for (const Symbol& symbol : graph.symbols()) {
    absl::StrAppend(&text, "symbol ", symbol.name, " in [", symbol.min, ", ",
                    symbol.max ? absl::StrCat(*symbol.max) : "inf", "]\n");
  }
  for (const Node& node : graph.nodes()) {
    bool input = node.op() == Op::kInput;
    absl::StrAppend(&text, input ? PrintInput(node.result(), graph.inputs()[node.Int("index")]) : Print(node), "\n");
  }
  for (const GraphOutput& output : graph.outputs()) absl::StrAppend(&text, PrintOutput(output), "\n");
  return text;
}

}  // namespace preheat::ir
