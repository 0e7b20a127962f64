#include "client/compilectl/plan_text.h"

#include <flatbuffers/idl.h>

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/compilectl/plan_schema.h"
#include "compiler/artifact/plan_generated.h"
#include "compiler/support/error.h"

namespace preheat::cli {
namespace {

// Replaces the bytes of `constants`, here and in sub-plans: they are no text.
void HideConstants(nlohmann::ordered_json& plan) {
  if (const auto it = plan.find("constants"); it != plan.end()) *it = {{"bytes", it->size()}};
  if (const auto it = plan.find("subplans"); it != plan.end()) {
    for (auto& sub : *it) HideConstants(sub);
  }
}

absl::Status NoPlan() {
  return MakeError(absl::StatusCode::kDataLoss, {.kind = "corrupt_artifact",
                                                 .message = "the bytes are no plan of this version",
                                                 .where = "",
                                                 .fix = "remove the entry and compile again"});
}

}  // namespace

absl::StatusOr<std::string> PlanText(absl::string_view plan) {
  // Verified in memory that is aligned as FlatBuffers wants it, which a string's need not be.
  std::unique_ptr<uint64_t[]> aligned(new uint64_t[plan.size() / 8 + 1]);
  std::memcpy(aligned.get(), plan.data(), plan.size());
  const auto* bytes = reinterpret_cast<const uint8_t*>(aligned.get());
  flatbuffers::Verifier verifier(bytes, plan.size(), /*max_depth=*/64, /*max_tables=*/1'000'000);
  if (!plan::VerifyPlanBuffer(verifier)) return NoPlan();
  flatbuffers::IDLOptions options;
  options.strict_json = true;
  options.indent_step = -1;
  flatbuffers::Parser parser(options);
  std::string text;
  if (!parser.Parse(kPlanSchema) || !flatbuffers::GenerateText(parser, bytes, &text)) return NoPlan();
  auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return NoPlan();
  HideConstants(json);
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace preheat::cli
