#include "kernels/library/cuda/algorithm.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "compiler/support/digest.h"

namespace preheat::library {
namespace {

void Add(std::string* text, const TensorSpec& t) {
  absl::StrAppend(text, " ", t.dtype, "[", absl::StrJoin(t.sizes, ","), "/", absl::StrJoin(t.strides, ","), "]");
}

// All that an algorithm was chosen for.
std::string ProblemOf(const CallSpec& call) {
  std::string text = absl::StrCat(call.op, " ", call.groups, call.transposed ? "t" : "");
  for (const TensorSpec& operand : call.operands) Add(&text, operand);
  Add(&text, call.result);
  for (const TensorSpec& more : call.more_results) Add(&text, more);
  for (const auto* numbers : {&call.stride, &call.padding, &call.dilation}) {
    absl::StrAppend(&text, " ", absl::StrJoin(*numbers, ","));
  }
  for (const EpilogueSpec& step : call.epilogue) {
    absl::StrAppend(&text, " ", step.op);
    Add(&text, step.operand);
  }
  return Digest(text).substr(0, 16);
}

std::string HeadOf(absl::string_view library, uint64_t version, const CallSpec& call) {
  return absl::StrCat(library, " ", version, " ", ProblemOf(call), "\n");
}

}  // namespace

std::string WriteAlgorithm(absl::string_view library, uint64_t version, const CallSpec& call, absl::string_view bytes) {
  return absl::StrCat(HeadOf(library, version, call), bytes);
}

Algorithm ReadAlgorithm(absl::string_view library, uint64_t version, const CallSpec& call) {
  Algorithm algorithm;
  absl::string_view text = call.algorithm;
  int rank = 0;
  if (absl::SimpleAtoi(text, &rank)) return {rank, ""};
  if (absl::ConsumePrefix(&text, HeadOf(library, version, call))) algorithm.stored = std::string(text);
  return algorithm;
}

}  // namespace preheat::library
