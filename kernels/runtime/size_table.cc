#include "kernels/runtime/size_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"

namespace preheat::runtime {
namespace {

// Toward minus infinity. INT64_MIN / -1 is the one quotient that overflows.
bool FloorDiv(int64_t a, int64_t b, int64_t* out) {
  if (b == 0) return *out = 0, true;
  if (b == -1) return !__builtin_sub_overflow(int64_t{0}, a, out);
  *out = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  return true;
}

int64_t Mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

bool Apply(plan::SizeOp op, int64_t a, int64_t b, int64_t* out) {
  switch (op) {
    case plan::SizeOp::Add: return !__builtin_add_overflow(a, b, out);
    case plan::SizeOp::Mul: return !__builtin_mul_overflow(a, b, out);
    case plan::SizeOp::FloorDiv: return FloorDiv(a, b, out);
    case plan::SizeOp::Mod: return *out = Mod(a, b), true;
    case plan::SizeOp::Max: return *out = std::max(a, b), true;
    case plan::SizeOp::Min: return *out = std::min(a, b), true;
    case plan::SizeOp::Const:
    case plan::SizeOp::Symbol: break;
  }
  return false;
}

}  // namespace

const char* DTypeText(int32_t dtype) {
  static constexpr const char* kNames[] = {"bool", "u8",   "i8",  "i16", "i32", "i64",
                                           "f16",  "bf16", "f32", "f64", "c64", "c128"};
  return dtype >= 0 && dtype < 12 ? kNames[dtype] : "?";
}

std::vector<Known> ClassifySizes(const plan::Plan& plan) {
  std::vector<Known> known;
  for (const plan::SizeNode* node : *plan.sizes()) {
    if (node->op() == plan::SizeOp::Const) {
      known.push_back(Known::kAlways);
    } else if (node->op() == plan::SizeOp::Symbol) {
      const int32_t input = plan.symbols()->Get(static_cast<uint32_t>(node->a()))->input();
      known.push_back(input < 0 ? Known::kAfterStep : Known::kAtStart);
    } else {
      known.push_back(std::max(known[static_cast<size_t>(node->a())], known[static_cast<size_t>(node->b())]));
    }
  }
  return known;
}

absl::Status EvaluateSizes(const plan::Plan& plan, const int64_t* symbols, int64_t* values) {
  const auto& nodes = *plan.sizes();
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const plan::SizeNode& node = *nodes.Get(i);
    if (node.op() == plan::SizeOp::Const) {
      values[i] = node.a();
    } else if (node.op() == plan::SizeOp::Symbol) {
      values[i] = symbols[node.a()];
    } else if (!Apply(node.op(), values[node.a()], values[node.b()], &values[i])) {
      return MakeError(absl::StatusCode::kOutOfRange,
                       {.kind = "size_out_of_range",
                        .message = absl::StrCat("size entry ", i, " of the plan does not fit 64 bits"),
                        .where = "",
                        .fix = "pass smaller tensors"});
    }
  }
  return absl::OkStatus();
}

}  // namespace preheat::runtime
