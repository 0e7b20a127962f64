#include "compiler/capture/limits.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

constexpr int64_t kSaturated = std::numeric_limits<int64_t>::max();

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? kSaturated : sum;
}

int64_t SaturatingMul(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? kSaturated : product;
}

int64_t Absolute(int64_t v) {
  if (v == std::numeric_limits<int64_t>::min()) return kSaturated;
  return v < 0 ? -v : v;
}

absl::Status Overflow(const ir::Expr& e) {
  return MakeError(absl::StatusCode::kOutOfRange,
                   {.kind = "size_overflow",
                    .message = absl::StrCat("size ", e.ToString(), " is larger than 2^48"),
                    .where = "",
                    .fix = "sizes, strides and numbers of elements must stay below 2^48"});
}

}  // namespace

int64_t Magnitude(const ir::Expr& e) {
  if (std::optional<int64_t> c = e.constant()) return Absolute(*c);
  int64_t sum = 0;
  for (const auto& [monomial, coefficient] : e.terms()) {
    int64_t product = Absolute(coefficient);
    for (const ir::Expr::Atom& atom : monomial) {
      int64_t inside = 1;
      for (const ir::Expr& arg : atom.args) inside = std::max(inside, Magnitude(arg));
      product = SaturatingMul(product, inside);
    }
    sum = SaturatingAdd(sum, product);
  }
  return sum;
}

absl::Status CheckMagnitude(const ir::Expr& e) {
  if (Magnitude(e) > kMaxMagnitude) return Overflow(e);
  if (!e.is_constant() && e.terms().size() > kMaxTerms) {
    return MakeError(
        absl::StatusCode::kOutOfRange,
        {.kind = "size_overflow", .message = "an expression has more than 64 terms", .where = "", .fix = ""});
  }
  return absl::OkStatus();
}

absl::Status CheckShape(absl::Span<const ir::Expr> shape) {
  if (shape.size() > kMaxRank) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.kind = "malformed_program",
                      .message = absl::StrCat("a tensor has ", shape.size(), " dimensions; at most 64 are possible"),
                      .where = "",
                      .fix = ""});
  }
  int64_t product = 1;
  for (const ir::Expr& size : shape) {
    std::optional<int64_t> c = size.constant();
    if (c && *c < 0) {
      return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "negative_size",
                                                            .message = absl::StrCat("a dimension has the size ", *c),
                                                            .where = "",
                                                            .fix = "sizes are zero or more"});
    }
    RETURN_IF_ERROR(CheckMagnitude(size));
    product = SaturatingMul(product, std::max<int64_t>(Magnitude(size), 1));
    if (product > kMaxMagnitude) return Overflow(ir::Expr(product));
  }
  return absl::OkStatus();
}

}  // namespace preheat::capture
