#ifndef PREHEAT_COMPILER_REPORT_PAGE_HTML_H_
#define PREHEAT_COMPILER_REPORT_PAGE_HTML_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace preheat {

// Building blocks of pages for people. A page is one file: no scripts, nothing loaded from elsewhere. Parameters named
// `html` are markup and go in as they are; all others are text and are escaped.

// Text, safe between tags and in quoted attributes; what is not printable becomes '?'.
std::string EscapeHtml(absl::string_view text);

// A whole page. `refresh_seconds` above 0: the browser loads it again.
std::string HtmlPage(absl::string_view title, absl::string_view html, int refresh_seconds = 0);

// "<a href>": `href` is ours, `text` may be anybody's.
std::string HtmlLink(absl::string_view href, absl::string_view text);

// A row of large numbers with their names.
struct Tile {
  std::string name, value;
  std::string note = {};  // small, below
};
std::string HtmlTiles(const std::vector<Tile>& tiles);

// Cells are markup.
class HtmlTable {
 public:
  struct Column {
    std::string header;
    bool number = false;
  };
  explicit HtmlTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void Add(const std::vector<std::string>& html);
  // `empty`: what stands there instead of a table without rows.
  std::string Render(absl::string_view empty) const;

 private:
  std::vector<Column> columns_;
  std::string rows_;
};

// Parts of a whole as one bar, and a legend below. Parts of 0 are left out; nothing when all are.
struct Part {
  std::string name, value;  // "compile", "1.2 s"
  double size = 0;
};
std::string HtmlParts(const std::vector<Part>& parts);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_REPORT_PAGE_HTML_H_
