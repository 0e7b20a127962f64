#include "autotune/tuning.h"

#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/codegen/schedule.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::autotune {
namespace {

constexpr char kFirstLine[] = "tuning 1";

absl::Status BadRecord(const std::string& why) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "bad_record", .message = why, .where = "", .fix = ""});
}

absl::Status ReadNumber(const std::map<std::string, std::string>& fields, const std::string& name, double* value) {
  auto found = fields.find(name);
  if (found == fields.end() || !absl::SimpleAtod(found->second, value))
    return BadRecord(absl::StrCat("no number ", name));
  return absl::OkStatus();
}

}  // namespace

std::string WriteRecord(const SiteResult& r) {
  return absl::StrCat(kFirstLine, "\nschedule ", r.schedule, "\ncandidates ", r.candidates, "\ndefault_us ",
                      r.default_us, "\nbest_us ", r.best_us, "\nratio ", r.ratio.value, "\nlow ", r.ratio.low,
                      "\nhigh ", r.ratio.high, "\n");
}

absl::StatusOr<SiteResult> ReadRecord(absl::string_view text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  if (lines.empty() || lines[0] != kFirstLine) return BadRecord("it does not start as a record does");
  std::map<std::string, std::string> fields;
  for (size_t i = 1; i < lines.size(); ++i) {
    std::pair<std::string, std::string> field = absl::StrSplit(lines[i], absl::MaxSplits(' ', 1));
    fields.insert(std::move(field));
  }
  SiteResult result;
  result.schedule = fields["schedule"];
  RETURN_IF_ERROR(codegen::ParseSchedule(result.schedule).status());
  double candidates = 0;
  RETURN_IF_ERROR(ReadNumber(fields, "candidates", &candidates));
  result.candidates = static_cast<int>(candidates);
  RETURN_IF_ERROR(ReadNumber(fields, "default_us", &result.default_us));
  RETURN_IF_ERROR(ReadNumber(fields, "best_us", &result.best_us));
  RETURN_IF_ERROR(ReadNumber(fields, "ratio", &result.ratio.value));
  RETURN_IF_ERROR(ReadNumber(fields, "low", &result.ratio.low));
  RETURN_IF_ERROR(ReadNumber(fields, "high", &result.ratio.high));
  result.from_record = true;
  return result;
}

}  // namespace preheat::autotune
