#include "server/quotas.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/support/error.h"
#include "compiler/support/human.h"
#include "compiler/support/retry_after.h"
#include "compiler/support/status_macros.h"
#include "server/read_text.h"

namespace preheat::server {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr char kOthers[] = "*";
constexpr std::chrono::seconds kMeasureEvery{1};
constexpr std::chrono::seconds kRetryCompiles{5};

absl::Status Invalid(std::string message, std::string where = "") {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = "invalid_config",
       .message = std::move(message),
       .where = std::move(where),
       .fix = "a line of the quota file is: NAMESPACE COMPILES BYTES, as in: research 20 50G; - is no limit"});
}

// "20", "50G", "-".
std::optional<int64_t> ParseLimit(absl::string_view text, bool units) {
  if (text == "-") return kNoLimit;
  int shift = 0;
  if (const size_t unit = absl::string_view("KMGT").find(text.empty() ? '?' : text.back());
      units && unit != absl::string_view::npos) {
    shift = 10 * static_cast<int>(unit + 1);
    text.remove_suffix(1);
  }
  int64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < 0 || number > (kNoLimit >> shift)) return std::nullopt;
  return number << shift;
}

absl::Status TooManyCompiles(const std::string& name_space, int64_t most) {
  return WithRetryAfter(
      MakeError(absl::StatusCode::kResourceExhausted,
                {.kind = "quota_compiles",
                 .message = absl::StrCat("namespace ", name_space, " has ", most, " compiles under way, its quota"),
                 .where = name_space,
                 .fix = "ask again when one is done, or have the server's quota file changed"}),
      kRetryCompiles);
}

absl::Status TooManyBytes(const std::string& name_space, int64_t bytes, int64_t most) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      {.kind = "quota_bytes",
       .message = absl::StrCat("the artifacts of namespace ", name_space, " have ", HumanBytes(bytes),
                               ", and its quota is ", HumanBytes(most)),
       .where = name_space,
       .fix = "have old ones removed (compilectl rm --older-than 30d), or the server's quota file changed"});
}

}  // namespace

absl::StatusOr<Quotas::Limits> Quotas::ParseLine(absl::string_view line, std::string* name) {
  const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.size() != 3) return Invalid(absl::StrCat("the line has ", words.size(), " words, not 3"));
  const std::optional<int64_t> compiles = ParseLimit(words[1], /*units=*/false);
  if (!compiles) return Invalid(absl::StrCat(words[1], " is no number of compiles"));
  const std::optional<int64_t> bytes = ParseLimit(words[2], /*units=*/true);
  if (!bytes) return Invalid(absl::StrCat(words[2], " is no number of bytes"));
  *name = words[0];
  return Limits{*compiles, *bytes};
}

absl::StatusOr<Quotas::ByNamespace> Quotas::Parse(const std::string& text, const std::string& path) {
  ByNamespace limits;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::string where = absl::StrCat(path, ":", ++number);
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || absl::StartsWith(line, "#")) continue;
    std::string name;
    absl::StatusOr<Limits> parsed = ParseLine(line, &name);
    if (!parsed.ok()) return WithWhere(parsed.status(), where);
    if (!limits.emplace(name, *parsed).second) return Invalid(absl::StrCat(name, " has a line already"), where);
  }
  return limits;
}

absl::StatusOr<std::unique_ptr<Quotas>> Quotas::Read(const std::string& path, MeasureFn measure) {
  std::unique_ptr<Quotas> quotas(new Quotas(path, std::move(measure)));
  RETURN_IF_ERROR(quotas->Refresh());
  return quotas;
}

absl::Status Quotas::Refresh() {
  if (path_.empty()) return absl::OkStatus();
  std::optional<std::string> text = ReadText(path_);
  if (!text) return Invalid("the quota file cannot be read", path_);
  ASSIGN_OR_RETURN(ByNamespace fresh, Parse(*text, path_));
  std::lock_guard lock(mutex_);
  limits_ = std::move(fresh);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Quotas::BytesOf(const std::string& name_space) {
  const auto now = std::chrono::steady_clock::now();
  if (measured_ == std::chrono::steady_clock::time_point() || now - measured_ >= kMeasureEvery) {
    ASSIGN_OR_RETURN(bytes_, measure_());
    measured_ = now;
  }
  const auto found = bytes_.find(name_space);
  return found == bytes_.end() ? 0 : found->second;
}

absl::StatusOr<std::shared_ptr<void>> Quotas::EnterCompile(const std::string& name_space) {
  std::lock_guard lock(mutex_);
  auto found = limits_.find(name_space);
  if (found == limits_.end()) found = limits_.find(kOthers);
  if (found == limits_.end()) return std::shared_ptr<void>();
  const Limits& limits = found->second;
  if (limits.bytes != kNoLimit) {
    ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(name_space));
    if (bytes >= limits.bytes) return TooManyBytes(name_space, bytes, limits.bytes);
  }
  const auto compiling = compiling_.find(name_space);
  if (limits.compiles <= (compiling == compiling_.end() ? 0 : compiling->second))
    return TooManyCompiles(name_space, limits.compiles);
  ++compiling_[name_space];
  return std::shared_ptr<void>(this, [name_space](void* self) { static_cast<Quotas*>(self)->Leave(name_space); });
}

void Quotas::Leave(const std::string& name_space) {
  std::lock_guard lock(mutex_);
  const auto found = compiling_.find(name_space);
  if (--found->second == 0) compiling_.erase(found);
}

}  // namespace preheat::server
