#include "compiler/report_page/html.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "compiler/support/human.h"

namespace preheat {
namespace {

constexpr absl::string_view kStyle = R"(
:root { --paper: #f6f7f9; --card: #fff; --ink: #1c2330; --faint: #667085; --line: #e3e6eb; --warm: #e2662b; --link: #2158b8;
  --hit: #2f9e6e; --coalesced: #4c86d8; --compiled: #e89a3c; --bad: #c8423b }
@media (prefers-color-scheme: dark) { :root { --paper: #14171c; --card: #1d2127; --ink: #e6e9ee; --faint: #98a1b0; --line: #2e343d;
  --link: #8ab4f8 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif }
main { max-width: 78rem; margin: 0 auto; padding: 1.2rem 1.4rem 3rem }
header { display: flex; align-items: baseline; gap: 1.4rem; border-bottom: 3px solid var(--warm); padding-bottom: .5rem; flex-wrap: wrap }
header nav { display: flex; gap: 1.1rem; margin-left: auto }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.1rem; margin: 1.8rem 0 .6rem }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
code { font: 13px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere }
.faint, .tile small, .legend { color: var(--faint) } .bad { color: var(--bad); font-weight: 600 } .good { color: var(--hit) }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1.1rem; overflow-x: auto }
.notice { border-left: 4px solid var(--bad); margin-top: 1rem }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .8rem; margin-top: 1rem }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .7rem .9rem }
.tile b { display: block; font-size: 1.45rem; line-height: 1.3; font-variant-numeric: tabular-nums } .tile small { display: block }
table { border-collapse: collapse; width: 100% }
th { text-align: left; font-weight: 600; color: var(--faint); font-size: .85rem }
th, td { padding: .32rem .7rem .32rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
tr:last-child td { border-bottom: 0 } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.bar { background: var(--warm); height: .55rem; border-radius: 2px; margin-top: .4rem; min-width: 1px }
.parts { display: flex; height: 1.1rem; border-radius: 4px; overflow: hidden; gap: 1px } .parts div { min-width: 2px }
.legend { display: flex; gap: 1.2rem; flex-wrap: wrap; margin-top: .5rem; font-size: .9rem }
.legend i { display: inline-block; width: .75rem; height: .75rem; border-radius: 2px; margin-right: .4rem; vertical-align: -1px }
svg { display: block; width: 100%; height: auto } svg text { fill: var(--faint); font-size: 11px }
)";

constexpr const char* kPartColors[] = {"#4c86d8", "#2f9e6e", "#e89a3c", "#c8623b", "#8a63c9", "#7a8496"};

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(Printable(text),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string HtmlPage(absl::string_view title, absl::string_view html, int refresh_seconds) {
  const std::string refresh =
      refresh_seconds > 0 ? absl::StrCat("<meta http-equiv=\"refresh\" content=\"", refresh_seconds, "\">") : "";
  return absl::StrCat("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">", refresh,
                      "<meta name=\"viewport\" content=\"width=device-width\"><title>", EscapeHtml(title),
                      "</title>\n<style>", kStyle, "</style></head>\n<body><main>\n", html, "</main></body></html>\n");
}

std::string HtmlLink(absl::string_view href, absl::string_view text) {
  return absl::StrCat("<a href=\"", EscapeHtml(href), "\">", EscapeHtml(text), "</a>");
}

std::string HtmlTiles(const std::vector<Tile>& tiles) {
  std::string html = "<div class=\"tiles\">\n";
  for (const Tile& tile : tiles) {
    absl::StrAppend(&html, "<div class=\"tile\">", EscapeHtml(tile.name), "<b>", EscapeHtml(tile.value), "</b><small>",
                    EscapeHtml(tile.note), "</small></div>\n");
  }
  return html + "</div>\n";
}

void HtmlTable::Add(const std::vector<std::string>& html) {
  rows_ += "<tr>";
  for (size_t c = 0; c < html.size() && c < columns_.size(); ++c)
    absl::StrAppend(&rows_, columns_[c].number ? "<td class=\"n\">" : "<td>", html[c], "</td>");
  rows_ += "</tr>\n";
}

std::string HtmlTable::Render(absl::string_view empty) const {
  if (rows_.empty()) return absl::StrCat("<div class=\"card faint\">", EscapeHtml(empty), "</div>\n");
  std::string head;
  for (const Column& column : columns_)
    absl::StrAppend(&head, column.number ? "<th class=\"n\">" : "<th>", EscapeHtml(column.header), "</th>");
  return absl::StrCat("<div class=\"card\"><table>\n<tr>", head, "</tr>\n", rows_, "</table></div>\n");
}

std::string HtmlParts(const std::vector<Part>& parts) {
  std::string bar, legend;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!(parts[i].size > 0)) continue;
    const char* color = kPartColors[i % std::size(kPartColors)];
    absl::StrAppend(&bar, absl::StrFormat("<div style=\"flex:%.6g;background:%s\"></div>", parts[i].size, color));
    absl::StrAppend(&legend, "<span><i style=\"background:", color, "\"></i>", EscapeHtml(parts[i].name), " ",
                    EscapeHtml(parts[i].value), "</span>");
  }
  if (bar.empty()) return "";
  return absl::StrCat("<div class=\"card\"><div class=\"parts\">", bar, "</div><div class=\"legend\">", legend,
                      "</div></div>\n");
}

}  // namespace preheat
