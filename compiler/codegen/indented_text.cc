#include "compiler/codegen/indented_text.h"

#include "absl/strings/str_cat.h"

namespace preheat::codegen {

void IndentedText::Line(absl::string_view text) {
  absl::StrAppend(&text_, std::string(size_t{2} * static_cast<size_t>(indent_), ' '), text, "\n");
}

void IndentedText::Open(absl::string_view head) {
  Line(absl::StrCat(head, " {"));
  ++indent_;
}

void IndentedText::OpenIf(absl::string_view condition) {
  Line(condition.empty() ? "{" : absl::StrCat("if (", condition, ") {"));
  ++indent_;
}

void IndentedText::Close() {
  --indent_;
  Line("}");
}

}  // namespace preheat::codegen
