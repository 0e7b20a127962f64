#include "compiler/report_page/fusion_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/report_page/html.h"
#include "compiler/support/human.h"

namespace preheat {
namespace {

std::string Code(absl::string_view text) { return absl::StrCat("<code>", EscapeHtml(text), "</code>"); }

// "aten.add.Tensor, aten.mul.Tensor x 3"
std::string Operators(const v1::KernelReport& kernel) {
  std::vector<std::string> texts;
  for (int i = 0; i < kernel.ops_size();) {
    int end = i + 1;
    while (end < kernel.ops_size() && kernel.ops(end) == kernel.ops(i)) ++end;
    texts.push_back(end - i > 1 ? absl::StrCat(kernel.ops(i), " x ", end - i) : kernel.ops(i));
    i = end;
  }
  return absl::StrJoin(texts, ", ");
}

std::string Kernels(const v1::FusionReport& report) {
  int64_t most = 1;
  for (const v1::KernelReport& kernel : report.kernels()) most = std::max(most, kernel.bytes());
  HtmlTable table({{"kernel"},
                   {"kind"},
                   {"operators"},
                   {"bytes", true},
                   {"flops", true},
                   {"ms", true},
                   {"roofline", true},
                   {"bytes, beside the largest"}});
  for (const v1::KernelReport& kernel : report.kernels()) {
    const double share = static_cast<double>(kernel.bytes()) / static_cast<double>(most);
    table.Add({Code(kernel.name()), EscapeHtml(kernel.kind()), Code(Operators(kernel)), HumanBytes(kernel.bytes()),
               HumanNumber(static_cast<double>(kernel.flops())), kernel.ms() > 0 ? HumanNumber(kernel.ms()) : "-",
               kernel.roofline() > 0 ? absl::StrFormat("%.0f %%", 100 * kernel.roofline()) : "-",
               absl::StrFormat("<div class=\"bar\" style=\"width:%.1f%%\"></div>", 100 * std::clamp(share, 0.0, 1.0))});
  }
  return table.Render("no kernels: nothing is computed");
}

std::string Calls(const v1::FusionReport& report) {
  HtmlTable table({{"call"}, {"what"}, {"count", true}, {"why"}});
  for (const v1::CallCount& call : report.library_calls())
    table.Add({"library", Code(call.name()), absl::StrCat(call.count()), "faster than a generated kernel"});
  for (const v1::ExternCall& call : report.extern_calls())
    table.Add({"extern", Code(call.op()), absl::StrCat(call.count()), EscapeHtml(call.reason())});
  for (const v1::GraphBreak& item : report.graph_breaks())
    table.Add({"graph break", Code(absl::StrCat(item.file(), ":", item.line())), "", EscapeHtml(item.reason())});
  return table.Render("none: every operator is in a kernel");
}

std::string Stages(const v1::StageSeconds& seconds) {
  std::vector<Part> parts;
  const auto add = [&](const char* name, double value) { parts.push_back({name, HumanSeconds(value), value}); };
  add("import", seconds.import());
  add("passes", seconds.passes());
  add("codegen", seconds.codegen());
  add("compile", seconds.compile());
  add("tune", seconds.tune());
  add("verify", seconds.verify());
  return HtmlParts(parts);
}

std::string Interval(double ratio, double low, double high) {
  return absl::StrFormat("%.3f (%.3f to %.3f)", ratio, low, high);
}

// What was measured, and what for.
std::string TuningHtml(const v1::Tuning& tuning) {
  HtmlTable table({{"site"},
                   {"schedule"},
                   {"measured", true},
                   {"default, us", true},
                   {"best, us", true},
                   {"over the default, 95%", true}});
  for (const v1::TunedSite& site : tuning.sites()) {
    table.Add({Code(site.name()), EscapeHtml(absl::StrCat(site.schedule(), site.from_record() ? " (record)" : "")),
               absl::StrCat(site.candidates()), absl::StrFormat("%.1f", site.default_us()),
               absl::StrFormat("%.1f", site.best_us()),
               site.schedule() == "default" ? "-" : Interval(site.ratio(), site.ratio_low(), site.ratio_high())});
  }
  const std::string whole =
      tuning.runs() == 0 ? "<p>Nothing was proved to be faster than the default schedules.</p>\n"
                         : absl::StrCat("<p>The whole program takes ",
                                        Interval(tuning.ratio(), tuning.ratio_low(), tuning.ratio_high()),
                                        " of its time by default schedules, by ", tuning.runs(), " paired runs.</p>\n");
  return absl::StrCat("<h2>Schedules measured</h2>\n", whole, table.Render("nothing to choose"));
}

}  // namespace

std::string FusionReportHtml(const v1::FusionReport& report, const v1::StageSeconds& seconds) {
  int externs = 0;
  for (const v1::ExternCall& call : report.extern_calls()) externs += call.count();
  const std::string tiles = HtmlTiles({{"kernels before", absl::StrCat(report.kernels_before()), "eager's launches"},
                                       {"kernels after", absl::StrCat(report.kernels_after()), "launches of a run"},
                                       {"extern calls", absl::StrCat(externs), "left to torch"},
                                       {"graph breaks", absl::StrCat(report.graph_breaks_size())},
                                       {"peak memory before", HumanBytes(report.peak_bytes_before())},
                                       {"peak memory after", HumanBytes(report.peak_bytes_after())}});
  const std::string stages = Stages(seconds);
  return absl::StrCat(tiles, "<h2>Kernels</h2>\n", Kernels(report),
                      "<h2>Library calls, extern calls, graph breaks</h2>\n", Calls(report),
                      report.has_tuning() ? TuningHtml(report.tuning()) : "",
                      stages.empty() ? "" : "<h2>Seconds of compiling</h2>\n", stages);
}

}  // namespace preheat
