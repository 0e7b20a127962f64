#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/compilectl/command.h"
#include "client/compilectl/report.h"
#include "client/compilectl/table.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

std::string Ago(int64_t unix_ms) {
  if (unix_ms == 0) return "-";
  return absl::StrCat(HumanSeconds(std::max(0.0, absl::ToDoubleSeconds(absl::Now() - absl::FromUnixMillis(unix_ms)))),
                      " ago");
}

absl::StatusOr<Outcome> Ls(Context& context) {
  ASSIGN_OR_RETURN(v1::ListReply reply, context.client().List());
  Json entries = Json::array();
  Table table({{.header = "key"},
               {.header = "name", .shrinks = true},
               {.header = "target", .shrinks = true},
               {.header = "gen", .right = true},
               {.header = "verified"},
               {.header = "bytes", .right = true},
               {.header = "hits", .right = true},
               {.header = "compile", .right = true},
               {.header = "used", .right = true}});
  int64_t bytes = 0;
  for (const v1::Entry& entry : reply.entries()) {
    entries.push_back({{"key", entry.key()},
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
                       {"pinned", entry.pinned()}});
    table.Add({entry.key().substr(0, 12), entry.name(), entry.target(),
               absl::StrCat(entry.generation(), entry.tuned() ? "t" : "", entry.pinned() ? "p" : ""),
               StateName(entry.verified()), HumanBytes(entry.bytes()), absl::StrCat(entry.hits()),
               HumanSeconds(entry.compile_seconds()), Ago(entry.last_used_unix_ms())});
    bytes += entry.bytes();
  }
  return Outcome{
      {{"entries", entries}},
      absl::StrCat(table.empty() ? "" : table.Render(), reply.entries_size(), " entries, ", HumanBytes(bytes), "\n")};
}

}  // namespace

Command AddLs(CLI::App& root) { return {root.add_subcommand("ls", "what the cache holds"), Ls}; }

}  // namespace preheat::cli
