#ifndef PREHEAT_COMPILER_CODEGEN_INDENTED_TEXT_H_
#define PREHEAT_COMPILER_CODEGEN_INDENTED_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace preheat::codegen {

// Source text line by line, indented by the blocks that are open.
class IndentedText {
 public:
  explicit IndentedText(int indent = 0) : indent_(indent) {}

  void Line(absl::string_view text);
  void Open(absl::string_view head);         // "head {"
  void OpenIf(absl::string_view condition);  // "if (condition) {"; a plain block where the condition is empty
  void Close();

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int indent_;
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_INDENTED_TEXT_H_
