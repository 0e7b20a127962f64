#include "kernels/runtime/size_text.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"

namespace preheat::runtime {
namespace {

constexpr int kMaxDepth = 64;

// Recursive descent; nothing once any part fails.
class Reader {
 public:
  Reader(absl::string_view text, const plan::Plan& plan, const int64_t* symbols)
      : rest_(text), plan_(plan), symbols_(symbols) {}

  std::optional<int64_t> Whole() {
    const std::optional<int64_t> value = Sum(0);
    Skip();
    return rest_.empty() ? value : std::nullopt;
  }

 private:
  using Value = std::optional<int64_t>;

  void Skip() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  bool Take(char c) {
    Skip();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  absl::string_view Word() {
    Skip();
    size_t n = 0;
    while (n < rest_.size() && (absl::ascii_isalnum(rest_[n]) || rest_[n] == '_')) ++n;
    const absl::string_view word = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return word;
  }

  Value Sum(int depth) {
    Value sum = Product(depth);
    while (sum) {
      const bool plus = Take('+');
      if (!plus && !Take('-')) break;
      const Value term = Product(depth);
      int64_t out = 0;
      if (!term || (plus ? __builtin_add_overflow(*sum, *term, &out) : __builtin_sub_overflow(*sum, *term, &out))) {
        return std::nullopt;
      }
      sum = out;
    }
    return sum;
  }

  Value Product(int depth) {
    Value product = Factor(depth);
    while (product && Take('*')) {
      const Value factor = Factor(depth);
      int64_t out = 0;
      if (!factor || __builtin_mul_overflow(*product, *factor, &out)) return std::nullopt;
      product = out;
    }
    return product;
  }

  Value Factor(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (Take('-')) {
      const Value value = Factor(depth + 1);
      if (!value || *value == INT64_MIN) return std::nullopt;
      return -*value;
    }
    if (Take('(')) {
      const Value value = Sum(depth + 1);
      return Take(')') ? value : std::nullopt;
    }
    const absl::string_view word = Word();
    if (word.empty()) return std::nullopt;
    if (absl::ascii_isdigit(word[0])) {
      int64_t number = 0;
      return absl::SimpleAtoi(word, &number) ? Value(number) : std::nullopt;
    }
    return Take('(') ? Call(word, depth) : Symbol(word);
  }

  Value Call(absl::string_view name, int depth) {
    const Value a = Sum(depth + 1);
    if (!a || !Take(',')) return std::nullopt;
    const Value b = Sum(depth + 1);
    if (!b || !Take(')')) return std::nullopt;
    if (name == "max") return std::max(*a, *b);
    if (name == "min") return std::min(*a, *b);
    if (*b <= 0) return 0;
    const int64_t quotient = *a / *b - (*a % *b < 0 ? 1 : 0);
    if (name == "floordiv") return quotient;
    if (name == "mod") return *a - quotient * *b;
    return std::nullopt;
  }

  Value Symbol(absl::string_view name) {
    for (uint32_t i = 0; i < Count(plan_.symbols()); ++i) {
      if (name == Text(plan_.symbols()->Get(i)->name())) return symbols_[i];
    }
    return std::nullopt;
  }

  absl::string_view rest_;
  const plan::Plan& plan_;
  const int64_t* symbols_;
};

}  // namespace

absl::StatusOr<std::string> SubstituteSizes(absl::string_view call, const plan::Plan& plan, const int64_t* symbols) {
  // Cannot stand inside a string of the JSON: quotes are escaped there.
  constexpr absl::string_view kOpen = "{\"e\":\"", kClose = "\"}";
  std::string out;
  while (true) {
    const size_t open = call.find(kOpen);
    if (open == absl::string_view::npos) return absl::StrCat(out, call);
    const absl::string_view after = call.substr(open + kOpen.size());
    const size_t close = after.find(kClose);
    const std::optional<int64_t> value =
        close == absl::string_view::npos ? std::nullopt : Reader(after.substr(0, close), plan, symbols).Whole();
    if (!value) {
      return MakeError(absl::StatusCode::kDataLoss,
                       {.kind = "corrupt_artifact",
                        .message = absl::StrCat("an extern call has a size that cannot be computed: ",
                                                after.substr(0, std::min<size_t>(close, 80))),
                        .where = "",
                        .fix = "fetch the artifact again"});
    }
    absl::StrAppend(&out, call.substr(0, open), *value);
    call = after.substr(close + kClose.size());
  }
}

}  // namespace preheat::runtime
