#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/compilectl/command.h"
#include "client/compilectl/report.h"
#include "client/compilectl/table.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

std::string Age(int64_t unix_ms) {
  if (unix_ms == 0) return "-";
  return HumanAge(absl::ToDoubleSeconds(absl::Now() - absl::FromUnixMillis(unix_ms)));
}

const char* Verified(v1::Evidence::State state) {
  return state == v1::Evidence::NOT_POSSIBLE ? "unable" : StateName(state);
}

Json EntryObject(const v1::Entry& entry) {
  return {{"key", entry.key()},
          {"name", entry.name()},
          {"target", entry.target()},
          {"generation", entry.generation()},
          {"tuned", entry.tuned()},
          {"verified", StateName(entry.verified())},
          {"bytes", entry.bytes()},
          {"created", Time(entry.created_unix_ms())},
          {"last_used", Time(entry.last_used_unix_ms())},
          {"hits", entry.hits()},
          {"compile_seconds", Number(entry.compile_seconds())},
          {"pinned", entry.pinned()},
          {"withdrawn", entry.withdrawn()}};
}

std::vector<std::string> EntryRow(const v1::Entry& entry) {
  return {entry.key().substr(0, 12),
          entry.name(),
          entry.target(),
          absl::StrCat(entry.generation(), entry.tuned() ? "t" : "", entry.pinned() ? "p" : ""),
          Verified(entry.verified()),
          HumanBytes(entry.bytes()),
          absl::StrCat(entry.hits()),
          HumanSeconds(entry.compile_seconds()),
          Age(entry.last_used_unix_ms())};
}

absl::StatusOr<Outcome> Ls(Context& context, bool all) {
  ASSIGN_OR_RETURN(v1::ListReply reply, context.client().List());
  Json entries = Json::array();
  Table table({{.header = "key"},
               {.header = "name", .shrinks = true},
               {.header = "target", .shrinks = true},
               {.header = "gen", .right = true},
               {.header = "verified"},
               {.header = "bytes", .right = true},
               {.header = "hits", .right = true},
               {.header = "compile", .right = true, .optional = true},
               {.header = "used", .right = true}});
  int64_t bytes = 0;
  for (const v1::Entry& entry : reply.entries()) {
    if (entry.withdrawn() && !all) continue;
    entries.push_back(EntryObject(entry));
    table.Add(EntryRow(entry));
    bytes += entry.bytes();
  }
  const size_t shown = entries.size(), hidden = static_cast<size_t>(reply.entries_size()) - shown;
  const std::string more = hidden > 0 ? absl::StrCat("; ", hidden, " withdrawn, see ls --all") : "";
  return Outcome{{{"entries", std::move(entries)}},
                 absl::StrCat(table.empty() ? "" : table.Render(), shown, " entries, ", HumanBytes(bytes), more, "\n")};
}

}  // namespace

Command AddLs(CLI::App& root) {
  CLI::App* app = root.add_subcommand("ls", "what the cache holds");
  auto all = std::make_shared<bool>(false);
  app->add_flag("--all", *all, "what was withdrawn, too: it failed verification, or a part of it is lost");
  return {app, [all](Context& context) { return Ls(context, *all); }};
}

}  // namespace preheat::cli
