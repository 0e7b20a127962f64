#include "compiler/ir/parse.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/op_attrs.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::ir {
namespace {

constexpr size_t kMaxText = size_t{256} << 20;
constexpr size_t kMaxNodes = 1 << 20;
constexpr size_t kMaxSymbols = 1 << 12;

bool IsWordChar(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Tokens, and the place of the one that is wrong.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : text_(text) {}

  size_t position() const { return at_; }

  absl::Status Fail(absl::string_view message) const { return FailAt(at_, message); }
  absl::Status FailAt(size_t at, absl::string_view message) const {
    int line = 1;
    size_t start = 0;
    for (size_t i = 0; i < at && i < text_.size(); ++i) {
      if (text_[i] == '\n') ++line, start = i + 1;
    }
    std::string where = absl::StrCat(line, ":", at - start + 1);
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.kind = "invalid_ir", .message = absl::StrCat(where, ": ", message), .where = where, .fix = ""});
  }
  absl::Status Expected(absl::string_view what) const { return Fail(absl::StrCat("expected ", what)); }

  bool AtEnd() {
    Skip();
    return at_ >= text_.size();
  }
  char Peek() {
    Skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (AtEnd() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  absl::Status Need(char c) {
    return Take(c) ? absl::OkStatus() : Expected(absl::StrCat("'", absl::string_view(&c, 1), "'"));
  }
  // The word here, if it is that one.
  bool TakeWord(absl::string_view word) {
    Skip();
    if (PeekWord() != word) return false;
    at_ += word.size();
    return true;
  }
  absl::string_view Word() {
    Skip();
    absl::string_view word = PeekWord();
    at_ += word.size();
    return word;
  }

  absl::StatusOr<int64_t> Int() {
    Skip();
    int64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return Expected("an integer");
    at_ = end - text_.data();
    return value;
  }

  // An int or a double: the latter has '.', an exponent, inf or nan.
  absl::StatusOr<Scalar> Number() {
    Skip();
    size_t end = at_;
    while (end < text_.size() && (IsWordChar(text_[end]) || absl::StrContains("+-.", text_.substr(end, 1)))) ++end;
    absl::string_view token = text_.substr(at_, end - at_);
    if (token.find_first_of(".enf") == absl::string_view::npos) {
      ASSIGN_OR_RETURN(int64_t value, Int());
      return Scalar(value);
    }
    double value = 0;
    auto [stop, error] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (error != std::errc() || stop != token.data() + token.size()) return Expected("a number");
    at_ = end;
    return Scalar(std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);
  }

  absl::StatusOr<std::string> Quoted() {
    RETURN_IF_ERROR(Need('"'));
    std::string value;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\n') return Expected("'\"' before the end of the line");
      if (c != '\\') {
        value += c;
        continue;
      }
      absl::string_view rest = text_.substr(at_);
      if (rest.size() >= 3 && rest[0] == 'x' && absl::ascii_isxdigit(rest[1]) && absl::ascii_isxdigit(rest[2])) {
        value += absl::HexStringToBytes(rest.substr(1, 2));
        at_ += 3;
      } else if (!rest.empty() && (rest[0] == '"' || rest[0] == '\\')) {
        value += rest[0];
        ++at_;
      } else if (!rest.empty() && rest[0] == 'n') {
        value += '\n';
        ++at_;
      } else {
        return Expected("\\\", \\\\, \\n or \\x and two digits");
      }
    }
    RETURN_IF_ERROR(Need('"'));
    return value;
  }

  // x"00ff", from the quote on.
  absl::StatusOr<std::string> Hex() {
    RETURN_IF_ERROR(Need('"'));
    size_t end = at_;
    while (end < text_.size() && absl::ascii_isxdigit(static_cast<unsigned char>(text_[end]))) ++end;
    absl::string_view digits = text_.substr(at_, end - at_);
    if (digits.size() % 2 != 0) return Expected("an even number of hexadecimal digits");
    at_ = end;
    RETURN_IF_ERROR(Need('"'));
    return absl::HexStringToBytes(digits);
  }

  // An expression up to ',' or `close` outside parentheses.
  absl::StatusOr<Expr> Expression(char close) {
    Skip();
    size_t end = at_;
    for (int depth = 0; end < text_.size() && text_[end] != '\n'; ++end) {
      char c = text_[end];
      if (depth == 0 && (c == ',' || c == close)) break;
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
    absl::StatusOr<Expr> e = Expr::Parse(absl::StripTrailingAsciiWhitespace(text_.substr(at_, end - at_)));
    if (!e.ok()) return Fail(e.status().message());
    at_ = end;
    return e;
  }

  // Items between brackets, each read by `item`.
  template <typename F>
  absl::Status List(char open, char close, F item) {
    RETURN_IF_ERROR(Need(open));
    if (Take(close)) return absl::OkStatus();
    do {
      RETURN_IF_ERROR(item());
    } while (Take(','));
    return Take(close) ? absl::OkStatus() : Expected(absl::StrCat("',' or '", absl::string_view(&close, 1), "'"));
  }

  absl::StatusOr<std::vector<Expr>> Exprs(char open, char close) {
    std::vector<Expr> list;
    RETURN_IF_ERROR(List(open, close, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(Expr e, Expression(close));
      list.push_back(std::move(e));
      return absl::OkStatus();
    }));
    return list;
  }

 private:
  void Skip() {
    while (at_ < text_.size()) {
      if (absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else if (absl::StartsWith(text_.substr(at_), "//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }
  absl::string_view PeekWord() const {
    size_t end = at_;
    while (end < text_.size() && IsWordChar(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }

  absl::string_view text_;
  size_t at_ = 0;
};

class Parser {
 public:
  explicit Parser(absl::string_view text) : in_(text) {}

  absl::StatusOr<Graph> Parse() {
    while (!in_.AtEnd()) RETURN_IF_ERROR(Statement());
    if (absl::Status status = Verify(graph_); !status.ok()) return in_.Fail(status.message());
    return std::move(graph_);
  }

 private:
  absl::Status Statement() {
    if (in_.Peek() == '%') return Definition();
    if (in_.TakeWord("symbol")) return SymbolLine();
    if (in_.TakeWord("output")) return Output();
    return in_.Expected("'symbol', 'output' or a value");
  }

  absl::Status SymbolLine() {
    Symbol symbol;
    symbol.name = std::string(in_.Word());
    if (symbol.name.empty() || absl::ascii_isdigit(symbol.name[0])) return in_.Expected("a symbol's name");
    if (graph_.symbols().size() >= kMaxSymbols) return in_.Fail("too many symbols");
    if (!in_.TakeWord("in")) return in_.Expected("'in'");
    RETURN_IF_ERROR(in_.Need('['));
    ASSIGN_OR_RETURN(symbol.min, in_.Int());
    RETURN_IF_ERROR(in_.Need(','));
    if (!in_.TakeWord("inf")) {
      ASSIGN_OR_RETURN(symbol.max, in_.Int());
    }
    RETURN_IF_ERROR(in_.Need(']'));
    graph_.AddSymbol(std::move(symbol));
    return absl::OkStatus();
  }

  // The name after '%'.
  absl::StatusOr<std::string> Name() {
    RETURN_IF_ERROR(in_.Need('%'));
    std::string name(in_.Word());
    if (name.empty()) return in_.Expected("a value's name");
    return name;
  }

  absl::StatusOr<Value> Reference() {
    ASSIGN_OR_RETURN(std::string name, Name());
    auto it = nodes_.find(name);
    if (it == nodes_.end()) return in_.Fail(absl::StrCat("there is no value %", name.substr(0, 40), " above"));
    int64_t index = 0;
    if (in_.Take('.')) {
      ASSIGN_OR_RETURN(index, in_.Int());
    }
    int64_t results = static_cast<int64_t>(it->second->results().size());
    if (index < 0 || index >= results)
      return in_.Fail(absl::StrCat("%", name.substr(0, 40), " has ", results, " results"));
    return it->second->result(static_cast<int>(index));
  }

  absl::StatusOr<TensorType> Type() {
    std::optional<DType> dtype = ParseDType(in_.Word());
    if (!dtype) return in_.Expected("a type such as f32[d0, 8]");
    ASSIGN_OR_RETURN(std::vector<Expr> shape, in_.Exprs('[', ']'));
    if (shape.size() > kMaxRank || !IsManageable(shape)) return in_.Fail("the shape is too large");
    return TensorType{*dtype, std::move(shape)};
  }

  absl::Status Definition() {
    ASSIGN_OR_RETURN(std::string name, Name());
    if (nodes_.count(name) != 0) return in_.Fail(absl::StrCat("%", name.substr(0, 40), " is there already"));
    if (nodes_.size() >= kMaxNodes) return in_.Fail("too many values");
    RETURN_IF_ERROR(in_.Need('='));
    if (in_.TakeWord("input")) {
      ASSIGN_OR_RETURN(Value value, Input());
      nodes_[name] = value.node;
      return absl::OkStatus();
    }
    absl::string_view word = in_.Word();
    size_t start = in_.position() - word.size();
    std::optional<Op> op = ParseOp(word);
    if (!op) return in_.FailAt(start, absl::StrCat("there is no operator \"", word.substr(0, 40), "\""));
    ASSIGN_OR_RETURN(nodes_[name], Operator(*op, start));
    return absl::OkStatus();
  }

  absl::StatusOr<Value> Input() {
    GraphInput input;
    ASSIGN_OR_RETURN(input.kind, Kind());
    ASSIGN_OR_RETURN(input.type, Type());
    ASSIGN_OR_RETURN(input.strides, Strides(input.type));
    if (in_.TakeWord("align")) {
      ASSIGN_OR_RETURN(int64_t alignment, in_.Int());
      if (alignment < 1 || alignment > 16) return in_.Expected("an alignment of 1 to 16");
      input.alignment = static_cast<int>(alignment);
    }
    input.frozen = in_.TakeWord("frozen");
    input.is_size = in_.TakeWord("size");
    if (input.is_size) input.symbol = std::string(in_.Word());
    return graph_.AddInput(std::move(input));
  }

  absl::StatusOr<InputKind> Kind() {
    for (InputKind kind : {InputKind::kParameter, InputKind::kBuffer, InputKind::kUser, InputKind::kConstant}) {
      if (in_.TakeWord(InputKindName(kind))) return kind;
    }
    return in_.Expected("parameter, buffer, user or constant");
  }

  absl::StatusOr<std::vector<Expr>> Strides(const TensorType& type) {
    if (!in_.TakeWord("strides")) return RowMajorStrides(type.shape);
    ASSIGN_OR_RETURN(std::vector<Expr> strides, in_.Exprs('[', ']'));
    if (!IsManageable(strides)) return in_.Fail("the strides are too large");
    return strides;
  }

  // `start`: where its name stands, for errors of the whole.
  absl::StatusOr<const Node*> Operator(Op op, size_t start) {
    std::vector<Value> operands;
    if (in_.Peek() == '(') {
      RETURN_IF_ERROR(in_.List('(', ')', [&]() -> absl::Status {
        ASSIGN_OR_RETURN(Value operand, Reference());
        operands.push_back(operand);
        return absl::OkStatus();
      }));
    }
    Attrs attrs;
    if (in_.Peek() == '{') {
      RETURN_IF_ERROR(in_.List('{', '}', [&] { return Attribute(attrs); }));
    }
    std::vector<TensorType> types;
    if (in_.Take(':')) {
      do {
        ASSIGN_OR_RETURN(TensorType type, Type());
        types.push_back(std::move(type));
      } while (in_.Take(','));
    }
    bool declared = Info(op).rule == TypeRule::kDeclared;
    absl::StatusOr<const Node*> node =
        graph_.Add(op, operands, std::move(attrs), declared ? types : std::vector<TensorType>{});
    if (!node.ok()) return in_.FailAt(start, node.status().message());
    if (!types.empty() && (*node)->results() != absl::MakeConstSpan(types)) {
      return in_.FailAt(start, absl::StrCat("the result is ", (*node)->results()[0].ToString()));
    }
    return node;
  }

  absl::Status Attribute(Attrs& attrs) {
    std::string name(in_.Word());
    if (name.empty()) return in_.Expected("an attribute's name");
    RETURN_IF_ERROR(in_.Need('='));
    ASSIGN_OR_RETURN(AttrValue value, AttributeValue());
    if (!attrs.emplace(name, std::move(value)).second)
      return in_.Fail(absl::StrCat(name.substr(0, 40), " is there twice"));
    return absl::OkStatus();
  }

  absl::StatusOr<AttrValue> AttributeValue() {
    switch (in_.Peek()) {
      case '"': return in_.Quoted();
      case 'x': return in_.TakeWord("x") ? in_.Hex() : in_.Expected("x\"...\"");
      case '[': return Ints();
      case '(': return in_.Exprs('(', ')');
      case '{': return Strings();
      case '<': {
        RETURN_IF_ERROR(in_.Need('<'));
        ASSIGN_OR_RETURN(Expr e, in_.Expression('>'));
        RETURN_IF_ERROR(in_.Need('>'));
        return AttrValue(std::move(e));
      }
      default: break;
    }
    for (DType dtype : {DType::kBool, DType::kU8, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kF16,
                        DType::kBF16, DType::kF32, DType::kF64, DType::kC64, DType::kC128}) {
      if (in_.TakeWord(DTypeName(dtype))) return AttrValue(dtype);
    }
    ASSIGN_OR_RETURN(Scalar number, in_.Number());
    return std::visit([](auto v) { return AttrValue(v); }, number);
  }

  absl::StatusOr<AttrValue> Ints() {
    std::vector<int64_t> list;
    RETURN_IF_ERROR(in_.List('[', ']', [&]() -> absl::Status {
      ASSIGN_OR_RETURN(int64_t value, in_.Int());
      list.push_back(value);
      return absl::OkStatus();
    }));
    return AttrValue(std::move(list));
  }

  absl::StatusOr<AttrValue> Strings() {
    std::vector<std::string> list;
    RETURN_IF_ERROR(in_.List('{', '}', [&]() -> absl::Status {
      ASSIGN_OR_RETURN(std::string value, in_.Quoted());
      list.push_back(std::move(value));
      return absl::OkStatus();
    }));
    return AttrValue(std::move(list));
  }

  // A number of an input; Verify sees to its range.
  absl::StatusOr<int> InputNumber() {
    ASSIGN_OR_RETURN(int64_t number, in_.Int());
    if (number < 0 || number >= static_cast<int64_t>(kMaxNodes)) return in_.Expected("the number of an input");
    return static_cast<int>(number);
  }

  absl::Status Output() {
    GraphOutput output;
    ASSIGN_OR_RETURN(output.value, Reference());
    ASSIGN_OR_RETURN(output.strides, Strides(output.value.type()));
    if (in_.TakeWord("mutates")) {
      ASSIGN_OR_RETURN(output.mutates, InputNumber());
    }
    if (in_.TakeWord("aliases")) {
      ASSIGN_OR_RETURN(output.aliases_input, InputNumber());
    }
    if (graph_.outputs().size() >= kMaxNodes) return in_.Fail("too many outputs");
    graph_.AddOutput(std::move(output));
    return absl::OkStatus();
  }

  Scanner in_;
  Graph graph_;
  std::map<std::string, const Node*> nodes_;
};

}  // namespace

absl::StatusOr<Graph> ParseGraph(absl::string_view text) {
  if (text.size() > kMaxText) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.kind = "invalid_ir", .message = "the text of a graph is above 256 MiB", .where = "", .fix = ""});
  }
  return Parser(text).Parse();
}

}  // namespace preheat::ir
