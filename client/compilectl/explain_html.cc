#include "client/compilectl/explain_html.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/compilectl/table.h"

namespace preheat::cli {
namespace {

constexpr absl::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Preheat: fusion report</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums } code { font-size: 13px; overflow-wrap: anywhere }
.bar { background: #e8743b; height: .5rem } .facts { display: flex; gap: 2.5rem; flex-wrap: wrap } .facts b { display: block; font-size: 1.6rem }
</style></head><body>
)";

std::string Escape(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Fact(absl::string_view name, absl::string_view value) {
  return absl::StrCat("<div><b>", Escape(value), "</b>", Escape(name), "</div>\n");
}

std::string Kernels(const v1::FusionReport& report) {
  int64_t most = 1;
  for (const v1::KernelReport& kernel : report.kernels()) most = std::max(most, kernel.bytes());
  std::string html =
      "<table><tr><th>kernel</th><th>kind</th><th>operators</th><th class=n>bytes</th><th class=n>flops</th><th "
      "class=n>ms</th><th class=n>roofline</th><th>share of the largest</th></tr>\n";
  for (const v1::KernelReport& kernel : report.kernels()) {
    absl::StrAppend(&html, "<tr><td><code>", Escape(kernel.name()), "</code></td><td>", Escape(kernel.kind()),
                    "</td><td><code>", Escape(absl::StrJoin(kernel.ops(), " ")), "</code></td><td class=n>",
                    HumanBytes(kernel.bytes()), "</td><td class=n>", HumanNumber(static_cast<double>(kernel.flops())),
                    "</td><td class=n>", kernel.ms() > 0 ? HumanNumber(kernel.ms()) : "", "</td><td class=n>",
                    kernel.roofline() > 0 ? absl::StrFormat("%.0f %%", 100 * kernel.roofline()) : "", "</td><td>",
                    absl::StrFormat("<div class=bar style=\"width:%.1f%%\"></div>",
                                    100.0 * static_cast<double>(kernel.bytes()) / static_cast<double>(most)),
                    "</td></tr>\n");
  }
  return html + "</table>\n";
}

std::string Calls(const v1::FusionReport& report) {
  std::string html = "<table><tr><th>call</th><th>what</th><th class=n>count</th><th>why</th></tr>\n";
  auto row = [&](absl::string_view kind, absl::string_view what, absl::string_view count, absl::string_view why) {
    absl::StrAppend(&html, "<tr><td>", kind, "</td><td><code>", Escape(what), "</code></td><td class=n>", count,
                    "</td><td>", Escape(why), "</td></tr>\n");
  };
  for (const v1::CallCount& call : report.library_calls()) row("library", call.name(), absl::StrCat(call.count()), "");
  for (const v1::ExternCall& call : report.extern_calls())
    row("extern", call.op(), absl::StrCat(call.count()), call.reason());
  for (const v1::GraphBreak& item : report.graph_breaks())
    row("graph break", absl::StrCat(item.file(), ":", item.line()), "", item.reason());
  return html + "</table>\n";
}

}  // namespace

std::string ExplainHtml(const v1::ExplainReply& reply) {
  const v1::FusionReport& report = reply.report();
  int externs = 0;
  for (const v1::ExternCall& call : report.extern_calls()) externs += call.count();
  return absl::StrCat(kHead, "<h1>Fusion report</h1>\n<p><code>", Escape(reply.key()),
                      "</code></p>\n<div class=facts>\n", Fact("kernels before", absl::StrCat(report.kernels_before())),
                      Fact("kernels after", absl::StrCat(report.kernels_after())),
                      Fact("extern calls", absl::StrCat(externs)),
                      Fact("graph breaks", absl::StrCat(report.graph_breaks_size())),
                      Fact("peak memory before", HumanBytes(report.peak_bytes_before())),
                      Fact("peak memory after", HumanBytes(report.peak_bytes_after())), "</div>\n<h2>Kernels</h2>\n",
                      Kernels(report), "<h2>Calls</h2>\n", Calls(report), "</body></html>\n");
}

}  // namespace preheat::cli
