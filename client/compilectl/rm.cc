#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/compilectl/command.h"
#include "client/compilectl/model.h"
#include "client/compilectl/table.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

struct Flags {
  std::string key, older_than, target;
};

absl::Status Invalid(std::string kind, std::string message, std::string where, std::string fix) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = std::move(kind), .message = std::move(message), .where = std::move(where), .fix = std::move(fix)});
}

// "30d", "12h", "90m", "45s", "1h30m"
absl::StatusOr<int64_t> ParseAge(const std::string& text) {
  absl::Duration age;
  int64_t days = 0;
  if (text.ends_with('d') && absl::SimpleAtoi(absl::string_view(text).substr(0, text.size() - 1), &days) && days >= 0 &&
      days < 100000)
    return days * 86400;
  if (absl::ParseDuration(text, &age) && age > absl::ZeroDuration() && age < absl::Hours(24 * 100000))
    return std::max<int64_t>(1, absl::ToInt64Seconds(age));
  return Invalid("malformed_duration", absl::StrCat("\"", text, "\" is no duration"),
                 absl::StrCat("--older-than ", text), "write 30d, 12h or 90m");
}

absl::StatusOr<Outcome> Rm(Context& context, const Flags& flags) {
  v1::RemoveRequest request;
  if (flags.key.empty() && flags.older_than.empty() && flags.target.empty()) {
    return Invalid("usage", "rm needs to know what to remove", "command line", "give a KEY, --older-than or --target");
  }
  if (!flags.key.empty() && !(flags.older_than.empty() && flags.target.empty())) {
    return Invalid("usage", "a KEY and --older-than or --target exclude each other", "command line",
                   "give one of them");
  }
  request.set_target(flags.target);
  if (!flags.older_than.empty()) {
    ASSIGN_OR_RETURN(int64_t seconds, ParseAge(flags.older_than));
    request.set_older_than_seconds(seconds);
  }
  if (!flags.key.empty()) {
    ASSIGN_OR_RETURN(std::string key, ResolveKey(context, flags.key));
    request.set_key(key);
  }
  ASSIGN_OR_RETURN(v1::RemoveReply reply, context.client().Remove(request));
  if (!flags.key.empty() && reply.entries() == 0) {
    return MakeError(absl::StatusCode::kNotFound,
                     {.kind = "unknown_key",
                      .message = absl::StrCat("nothing is stored under key ", request.key()),
                      .where = request.key(),
                      .fix = "`compilectl ls` lists the keys"});
  }
  return Outcome{{{"entries", reply.entries()}, {"bytes", reply.bytes()}},
                 absl::StrCat("removed ", reply.entries(), " entries, ", HumanBytes(reply.bytes()), "\n")};
}

}  // namespace

Command AddRm(CLI::App& root) {
  CLI::App* app = root.add_subcommand("rm", "remove entries from the cache");
  auto flags = std::make_shared<Flags>();
  app->add_option("KEY", flags->key, "the key, or its first digits")->type_name("");
  app->add_option("--older-than", flags->older_than, "entries not used for so long: 30d, 12h")->type_name("AGE");
  app->add_option("--target", flags->target, "entries of that target")->type_name("TARGET");
  return {app, [flags](Context& context) { return Rm(context, *flags); }};
}

}  // namespace preheat::cli
