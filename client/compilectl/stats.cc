#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/compilectl/command.h"
#include "client/compilectl/report.h"
#include "client/compilectl/table.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

absl::StatusOr<Outcome> Stats(Context& context) {
  ASSIGN_OR_RETURN(v1::StatsReply reply, context.client().Stats());
  Json requests = Json::object();
  std::string text = "requests:";
  int64_t total = 0;
  for (const char* result : {"hit", "compiled", "coalesced", "negative", "refused", "failed"}) {
    const auto it = reply.requests().find(result);
    const int64_t count = it == reply.requests().end() ? 0 : it->second;
    requests[result] = count;
    absl::StrAppend(&text, " ", count, " ", result);
    total += count;
  }
  const Json hit_rate = total == 0 ? Json(nullptr) : Number(reply.hit_rate());
  absl::StrAppend(&text, "\nhit rate: ", total == 0 ? "-" : absl::StrFormat("%.1f %%", 100 * reply.hit_rate()),
                  "; seconds saved: ", HumanSeconds(reply.seconds_saved()), "\ncache: ", reply.entries(), " entries, ",
                  HumanBytes(reply.bytes()), "; evicted ", HumanBytes(reply.evicted_bytes()), "; corrupt ",
                  reply.corrupt(), "\n");
  return Outcome{{{"requests", requests},
                  {"hit_rate", hit_rate},
                  {"seconds_saved", Number(reply.seconds_saved())},
                  {"entries", reply.entries()},
                  {"bytes", reply.bytes()},
                  {"evicted_bytes", reply.evicted_bytes()},
                  {"corrupt", reply.corrupt()}},
                 text};
}

}  // namespace

Command AddStats(CLI::App& root) { return {root.add_subcommand("stats", "the server's counters"), Stats}; }

}  // namespace preheat::cli
