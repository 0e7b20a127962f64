#include "client/compilectl/table.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "client/compilectl/progress.h"

namespace preheat::cli {
namespace {

constexpr absl::string_view kGap = "  ";
constexpr size_t kLeastWidth = 8;  // of a column that shrinks
constexpr int kUncut = 1 << 20;    // into a file nothing is cut

}  // namespace

void Table::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::Render() const {
  const bool bounded = isatty(STDOUT_FILENO) != 0 || std::getenv("COLUMNS") != nullptr;
  return Render(bounded ? TerminalWidth(STDOUT_FILENO) : kUncut);
}

// The width of each column, and which are shown at all.
std::vector<size_t> Table::FitColumns(size_t width, std::vector<bool>& shown) const {
  std::vector<size_t> widths, least;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t widest = Columns(columns_[c].header);
    for (const auto& row : rows_) widest = std::max(widest, Columns(row[c]));
    widths.push_back(widest + kGap.size());
    least.push_back(columns_[c].shrinks ? std::min(widest, kLeastWidth) + kGap.size() : widths[c]);
  }
  width += kGap.size();  // no gap behind the last
  for (size_t c = columns_.size(); c-- > 0 && std::accumulate(least.begin(), least.end(), size_t{0}) > width;) {
    if (!columns_[c].optional) continue;
    shown[c] = false;
    widths[c] = least[c] = 0;
  }
  for (size_t total = std::accumulate(widths.begin(), widths.end(), size_t{0}); total > width; --total) {
    size_t* widest = nullptr;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (widths[c] > least[c] && (widest == nullptr || widths[c] > *widest)) widest = &widths[c];
    }
    if (widest == nullptr) break;
    --*widest;
  }
  for (size_t& column : widths) column -= std::min(column, kGap.size());
  return widths;
}

std::string Table::Render(int width) const {
  std::vector<bool> shown(columns_.size(), true);
  const std::vector<size_t> widths = FitColumns(static_cast<size_t>(width), shown);
  std::string text;
  auto add_line = [&](auto cell_of) {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (!shown[c]) continue;
      const std::string cell = Shorten(cell_of(c), widths[c]);
      const std::string pad(widths[c] - std::min(widths[c], Columns(cell)), ' ');
      absl::StrAppend(&line, line.empty() ? "" : kGap, columns_[c].right ? pad : "", cell,
                      columns_[c].right ? "" : pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  };
  add_line([&](size_t c) { return absl::string_view(columns_[c].header); });
  for (const auto& row : rows_) add_line([&](size_t c) { return absl::string_view(row[c]); });
  return text;
}

}  // namespace preheat::cli
