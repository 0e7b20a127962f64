#include "server/status_page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace preheat::server {
namespace {

std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Row(const std::vector<std::string>& cells) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) absl::StrAppend(&row, "<td>", Escape(cell), "</td>");
  return row + "</tr>\n";
}

}  // namespace

std::string StatusPage(const v1::StatsReply& stats, const Gauges& gauges, const std::vector<v1::WorkerInfo>& workers) {
  std::string page =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>preheatd</title>\n"
      "<style>body{font:15px sans-serif;margin:2em}td{padding:.2em 1em .2em 0}</style>\n"
      "<h1>preheatd</h1>\n<table>\n";
  for (const char* result : {"hit", "compiled", "coalesced", "negative", "refused", "failed"}) {
    auto found = stats.requests().find(result);
    page += Row({result, absl::StrCat(found == stats.requests().end() ? 0 : found->second)});
  }
  page += Row({"hit rate", absl::StrFormat("%.1f %%", 100 * stats.hit_rate())});
  page += Row({"seconds saved", absl::StrFormat("%.1f", stats.seconds_saved())});
  page += Row({"entries", absl::StrCat(gauges.cache_entries)});
  page += Row({"bytes", absl::StrCat(gauges.cache_bytes)});
  page += Row({"in flight", absl::StrCat(gauges.inflight)});
  page += Row({"queued", absl::StrCat(gauges.queue_depth)});
  page += "</table>\n<h2>Workers</h2>\n<table>\n";
  for (const v1::WorkerInfo& worker : workers) {
    page += Row({worker.id(), worker.device(), worker.target(), worker.state(), absl::StrCat(worker.tasks(), " tasks"),
                 absl::StrCat(worker.crashes(), " crashes")});
  }
  return page + "</table>\n<p><a href=\"/metrics\">metrics</a></p></html>\n";
}

}  // namespace preheat::server
