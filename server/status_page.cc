#include "server/status_page.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "compiler/report_page/fusion_report.h"
#include "compiler/report_page/html.h"
#include "compiler/support/error.h"
#include "compiler/support/human.h"
#include "server/request_chart.h"

namespace preheat::server {
namespace {

constexpr int kRefreshSeconds = 15;
constexpr size_t kMostListed = 500;

std::string Header(absl::string_view title, absl::string_view note) {
  return absl::StrCat("<header><h1>", EscapeHtml(title), "</h1><span class=\"faint\">", EscapeHtml(note),
                      "</span><nav><a href=\"/\">status</a><a href=\"/artifacts\">artifacts</a>"
                      "<a href=\"/metrics\">metrics</a></nav></header>\n");
}

std::string Ago(int64_t unix_ms, int64_t now_ms) {
  if (unix_ms == 0) return "-";
  const std::string age = HumanAge(static_cast<double>(now_ms - unix_ms) / 1000);
  return age == "now" ? age : absl::StrCat(age, " ago");
}

std::string KeyLink(const std::string& key) {
  if (key.empty()) return "-";
  return absl::StrCat("<code>", HtmlLink(absl::StrCat("/artifact/", key), key.substr(0, 12)), "</code>");
}

int64_t Count(const v1::StatsReply& stats, const char* result) {
  const auto found = stats.requests().find(result);
  return found == stats.requests().end() ? 0 : found->second;
}

std::string Tiles(const Status& status) {
  const v1::StatsReply& stats = status.stats;
  const int64_t asked = Count(stats, "hit") + Count(stats, "compiled") + Count(stats, "coalesced");
  const int64_t bad = Count(stats, "failed") + Count(stats, "refused") + Count(stats, "negative");
  int busy = 0, there = 0;
  for (const v1::WorkerInfo& worker : status.workers) {
    there += worker.state() != "lost";
    busy += worker.state() == "busy";
  }
  return HtmlTiles(
      {{"hit rate", asked == 0 ? "-" : absl::StrFormat("%.1f %%", 100 * stats.hit_rate()), "since the start"},
       {"requests", absl::StrCat(asked + bad),
        absl::StrCat(Count(stats, "compiled"), " compiled, ", bad, " failed or refused")},
       {"seconds saved", HumanSeconds(stats.seconds_saved()), "of compiling"},
       {"queue", absl::StrCat(status.gauges.queue_depth), absl::StrCat(status.gauges.inflight, " requests in flight")},
       {"workers", absl::StrCat(busy, " / ", there), "busy / there"},
       {"artifacts", absl::StrCat(status.gauges.cache_entries), HumanBytes(status.gauges.cache_bytes)},
       {"corrupt blobs", absl::StrCat(stats.corrupt()),
        absl::StrCat(HumanBytes(stats.evicted_bytes()), " evicted or removed")}});
}

std::string Workers(const Status& status) {
  HtmlTable table({{"worker"},
                   {"device"},
                   {"target"},
                   {"state"},
                   {"task"},
                   {"tasks done", true},
                   {"crashes", true},
                   {"memory", true}});
  for (const v1::WorkerInfo& worker : status.workers) {
    const char* look = worker.state() == "lost" ? "bad" : worker.state() == "busy" ? "good" : "faint";
    table.Add({EscapeHtml(worker.id()), EscapeHtml(worker.device()), EscapeHtml(worker.target()),
               absl::StrCat("<span class=\"", look, "\">", EscapeHtml(worker.state()), "</span>"),
               worker.task().empty()
                   ? "-"
                   : absl::StrCat(EscapeHtml(Shorten(worker.task(), 80)), ", ", HumanSeconds(worker.task_seconds())),
               absl::StrCat(worker.tasks()), absl::StrCat(worker.crashes()),
               worker.resident_bytes() > 0 ? HumanBytes(worker.resident_bytes()) : "-"});
  }
  return table.Render("no worker has come up yet: see worker-0.log in the data folder");
}

std::string Compiles(const Status& status) {
  HtmlTable table({{"when"}, {"program"}, {"namespace"}, {"target"}, {"result"}, {"time", true}, {"key"}});
  for (const History::Compile& compile : status.compiles) {
    table.Add({Ago(compile.unix_ms, status.unix_ms), EscapeHtml(Shorten(compile.name, 80)),
               EscapeHtml(Shorten(compile.name_space, 40)), EscapeHtml(compile.target),
               compile.failure.empty() ? "compiled"
                                       : absl::StrCat("<span class=\"bad\">", EscapeHtml(compile.failure), "</span>"),
               HumanSeconds(compile.seconds), KeyLink(compile.key)});
  }
  return table.Render("none since the start");
}

const char* StateText(v1::Evidence::State state) {
  switch (state) {
    case v1::Evidence::OK: return "<span class=\"good\">ok</span>";
    case v1::Evidence::FAILED: return "<span class=\"bad\">failed</span>";
    case v1::Evidence::NOT_POSSIBLE: return "not possible";
    default: return "pending";
  }
}

std::string Fact(absl::string_view name, absl::string_view html) {
  return absl::StrCat("<tr><td class=\"faint\">", EscapeHtml(name), "</td><td>", html, "</td></tr>\n");
}

std::string Sizes(const v1::Manifest& manifest) {
  std::vector<std::string> texts;
  for (const v1::Symbol& symbol : manifest.symbols()) {
    texts.push_back(absl::StrCat(symbol.name(), " from ", symbol.min(), " to ",
                                 symbol.has_max() ? absl::StrCat(symbol.max()) : "any"));
  }
  return texts.empty() ? "fixed" : absl::StrJoin(texts, ", ");
}

v1::StageSeconds Seconds(const v1::Manifest& manifest) {
  v1::StageSeconds seconds = manifest.seconds();
  seconds.set_verify(manifest.evidence().seconds());
  return seconds;
}

std::string Evidence(const v1::Evidence& evidence) {
  std::string html = StateText(evidence.state());
  if (evidence.state() == v1::Evidence::OK || evidence.state() == v1::Evidence::FAILED) {
    absl::StrAppend(&html, ": error ", HumanNumber(evidence.rel_error()), " against float64, eager's own ",
                    HumanNumber(evidence.eager_rel_error()));
  }
  if (!evidence.reason().empty()) absl::StrAppend(&html, " (", EscapeHtml(evidence.reason()), ")");
  return html;
}

std::string Facts(const ArtifactView& view, int64_t unix_ms) {
  const v1::Manifest& manifest = view.manifest;
  const v1::Toolchain& toolchain = manifest.toolchain();
  int64_t code_bytes = 0;
  for (const v1::BlobRef& blob : manifest.code()) code_bytes += blob.size_bytes();
  return absl::StrCat(
      "<div class=\"card\" style=\"margin-top:1rem\"><table>\n",
      Fact("key", absl::StrCat("<code>", EscapeHtml(manifest.key()), "</code>")),
      Fact("target", absl::StrCat("<code>", EscapeHtml(manifest.target()), "</code>")),
      Fact("sizes", EscapeHtml(Sizes(manifest))),
      Fact("generation", absl::StrCat(manifest.generation(), manifest.tuned() ? ", tuned" : ", default schedules",
                                      view.entry.pinned() ? ", pinned by a job" : "")),
      Fact("verified", Evidence(manifest.evidence())),
      Fact("used", absl::StrCat(view.entry.hits(), " hits, last ", Ago(view.entry.last_used_unix_ms(), unix_ms),
                                "; compiled ", Ago(manifest.created_unix_ms(), unix_ms))),
      Fact("bytes", absl::StrCat(HumanBytes(view.entry.bytes()), ", of which code ", HumanBytes(code_bytes), ", plan ",
                                 HumanBytes(manifest.plan().size_bytes()))),
      Fact("toolchain",
           EscapeHtml(absl::StrCat("epoch ", toolchain.compiler_epoch(), ", ", toolchain.host_compiler(),
                                   toolchain.device_compiler().empty() ? "" : ", ", toolchain.device_compiler(),
                                   ", plan version ", toolchain.plan_version()))),
      Fact("namespace", EscapeHtml(manifest.name_space())), "</table></div>\n");
}

}  // namespace

std::string StatusPage(const Status& status) {
  std::string notices;
  for (const std::string& notice : status.notices)
    absl::StrAppend(&notices, "<div class=\"card notice\">", EscapeHtml(notice), "</div>\n");
  const double up = status.stats.uptime_seconds();
  const std::string note =
      absl::StrCat("up ", up < 3600 ? HumanAge(up) : HumanSeconds(up), ", data in ", status.data_dir);
  return HtmlPage("preheatd",
                  absl::StrCat(Header("preheatd", note), notices, Tiles(status), "<h2>Requests and hit rate</h2>\n",
                               RequestChart(status.minutes, status.unix_ms), "<h2>Workers</h2>\n", Workers(status),
                               "<h2>Recent compiles</h2>\n", Compiles(status)),
                  kRefreshSeconds);
}

std::string ArtifactsPage(std::vector<v1::Entry> entries, int64_t unix_ms) {
  std::sort(entries.begin(), entries.end(), [](const v1::Entry& a, const v1::Entry& b) {
    return std::pair(b.last_used_unix_ms(), a.key()) < std::pair(a.last_used_unix_ms(), b.key());
  });
  HtmlTable table({{"key"},
                   {"program"},
                   {"target"},
                   {"generation", true},
                   {"verified"},
                   {"bytes", true},
                   {"hits", true},
                   {"compiled in", true},
                   {"used"}});
  for (size_t i = 0; i < entries.size() && i < kMostListed; ++i) {
    const v1::Entry& entry = entries[i];
    table.Add({KeyLink(entry.key()), EscapeHtml(Shorten(entry.name(), 80)), EscapeHtml(entry.target()),
               absl::StrCat(entry.generation(), entry.tuned() ? " tuned" : "", entry.pinned() ? " pinned" : ""),
               StateText(entry.verified()), HumanBytes(entry.bytes()), absl::StrCat(entry.hits()),
               HumanSeconds(entry.compile_seconds()), Ago(entry.last_used_unix_ms(), unix_ms)});
  }
  std::string note = absl::StrCat(entries.size(), entries.size() == 1 ? " artifact" : " artifacts");
  if (entries.size() > kMostListed) absl::StrAppend(&note, ", the last used ", kMostListed, " of them");
  return HtmlPage("preheatd: artifacts", absl::StrCat(Header("Artifacts", note), "<h2></h2>\n",
                                                      table.Render("nothing has been compiled here yet")));
}

std::string ArtifactPage(const ArtifactView& view, int64_t unix_ms) {
  const std::string name =
      view.entry.name().empty() ? view.manifest.key().substr(0, 12) : Shorten(view.entry.name(), 80);
  const std::string report = view.report.ok() ? FusionReportHtml(*view.report, Seconds(view.manifest))
                                              : absl::StrCat("<div class=\"card notice\">",
                                                             EscapeHtml(view.report.status().message()), "</div>\n");
  return HtmlPage(absl::StrCat("preheatd: ", name),
                  absl::StrCat(Header(name, "fusion report"), Facts(view, unix_ms), report));
}

std::string ErrorPage(const absl::Status& status) {
  const Error error = GetError(status);
  return HtmlPage("preheatd",
                  absl::StrCat(Header("Nothing to show", ""), "<div class=\"card notice\">", EscapeHtml(error.message),
                               "<br><span class=\"faint\">", EscapeHtml(error.fix), "</span></div>\n"));
}

}  // namespace preheat::server
