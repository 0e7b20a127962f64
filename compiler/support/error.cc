#include "compiler/support/error.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "compiler/support/default_fix.h"

namespace preheat {
namespace {

constexpr char kKind[] = "preheat/kind";
constexpr char kWhere[] = "preheat/where";
constexpr char kFix[] = "preheat/fix";

std::string Payload(const absl::Status& status, const char* name) {
  auto payload = status.GetPayload(name);
  return payload ? std::string(*payload) : std::string();
}

}  // namespace

absl::Status MakeError(absl::StatusCode code, Error error) {
  absl::Status status(code, error.message);
  status.SetPayload(kKind, absl::Cord(error.kind));
  if (!error.where.empty()) status.SetPayload(kWhere, absl::Cord(error.where));
  if (!error.fix.empty()) status.SetPayload(kFix, absl::Cord(error.fix));
  return status;
}

Error GetError(const absl::Status& status) {
  Error error;
  error.message = std::string(status.message());
  error.kind = Payload(status, kKind);
  error.where = Payload(status, kWhere);
  error.fix = Payload(status, kFix);
  if (error.kind.empty()) error.kind = absl::AsciiStrToLower(CodeName(status.code()));
  if (error.fix.empty() && !status.ok()) error.fix = std::string(DefaultFix(error.kind));
  return error;
}

absl::Status WithWhere(absl::Status status, absl::string_view where) {
  if (status.ok() || !Payload(status, kWhere).empty()) return status;
  if (Payload(status, kKind).empty()) status.SetPayload(kKind, absl::Cord(GetError(status).kind));
  status.SetPayload(kWhere, absl::Cord(where));
  return status;
}

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

absl::StatusCode CodeFromName(absl::string_view name) {
  for (int code = 0; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
    if (CodeName(static_cast<absl::StatusCode>(code)) == name) return static_cast<absl::StatusCode>(code);
  }
  return absl::StatusCode::kUnknown;
}

}  // namespace preheat
