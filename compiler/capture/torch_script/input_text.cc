#include "compiler/capture/torch_script/input_text.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/capture/limits.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

absl::Status Malformed(absl::string_view text) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "malformed_input",
                    .message = absl::StrCat("\"", text, "\" does not describe an input"),
                    .where = std::string(text),
                    .fix = "write it as x=f32[batch,128]"});
}

absl::StatusOr<int64_t> SizeOf(absl::string_view word, absl::string_view text,
                               const std::map<std::string, int64_t>& dims, std::map<std::string, int64_t>& used) {
  int64_t size = 0;
  if (absl::SimpleAtoi(word, &size)) return size;
  if (word.empty() || absl::ascii_isdigit(word[0])) return Malformed(text);
  auto found = dims.find(std::string(word));
  if (found == dims.end()) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.kind = "unbound_dimension",
                      .message = absl::StrCat("dimension ", word, " has no value, which TorchScript needs"),
                      .where = std::string(text),
                      .fix = absl::StrCat("give --dim ", word, "=NUMBER, or a bucket that names it")});
  }
  used.insert(*found);
  return found->second;
}

}  // namespace

absl::StatusOr<InputText> ParseInputText(absl::string_view text, const std::map<std::string, int64_t>& dims,
                                         std::map<std::string, int64_t>& used) {
  InputText input;
  const size_t equals = text.find('='), open = text.find('[');
  if (equals == absl::string_view::npos || open == absl::string_view::npos || open < equals || text.back() != ']')
    return Malformed(text);
  input.name = std::string(absl::StripAsciiWhitespace(text.substr(0, equals)));
  std::optional<ir::DType> dtype =
      ir::ParseDType(absl::StripAsciiWhitespace(text.substr(equals + 1, open - equals - 1)));
  if (input.name.empty() || !dtype) return Malformed(text);
  input.dtype = *dtype;
  absl::string_view sizes = text.substr(open + 1, text.size() - open - 2);
  if (absl::StripAsciiWhitespace(sizes).empty()) return input;
  for (absl::string_view word : absl::StrSplit(sizes, ',')) {
    ASSIGN_OR_RETURN(int64_t size, SizeOf(absl::StripAsciiWhitespace(word), text, dims, used));
    input.sizes.push_back(size);
  }
  std::vector<ir::Expr> shape(input.sizes.begin(), input.sizes.end());
  RETURN_IF_ERROR(CheckShape(shape));
  return input;
}

}  // namespace preheat::capture
