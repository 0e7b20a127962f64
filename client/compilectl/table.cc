#include "client/compilectl/table.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/compilectl/progress.h"

namespace preheat::cli {
namespace {

constexpr absl::string_view kGap = "  ";
constexpr size_t kLeastWidth = 8;  // of a column that shrinks
constexpr int kUncut = 1 << 20;    // into a file nothing is cut

}  // namespace

std::string Table::Render() const { return Render(isatty(STDOUT_FILENO) ? TerminalWidth(STDOUT_FILENO) : kUncut); }

std::string Table::Render(int width) const {
  std::vector<size_t> widths;
  size_t total = kGap.size() * (columns_.size() - 1);
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t widest = columns_[c].header.size();
    for (const auto& row : rows_) widest = std::max(widest, row[c].size());
    widths.push_back(widest);
    total += widest;
  }
  while (total > static_cast<size_t>(width)) {
    size_t* widest = nullptr;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (columns_[c].shrinks && widths[c] > kLeastWidth && (widest == nullptr || widths[c] > *widest))
        widest = &widths[c];
    }
    if (widest == nullptr) break;
    --*widest;
    --total;
  }
  std::string text;
  auto add_line = [&](auto cell_of) {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string cell = Shorten(cell_of(c), widths[c]);
      const std::string pad(widths[c] - std::min(widths[c], cell.size()), ' ');
      absl::StrAppend(&line, c == 0 ? "" : kGap, columns_[c].right ? pad : "", cell, columns_[c].right ? "" : pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  };
  add_line([&](size_t c) { return absl::string_view(columns_[c].header); });
  for (const auto& row : rows_) add_line([&](size_t c) { return absl::string_view(row[c]); });
  return text;
}

std::string Shorten(absl::string_view text, size_t width) {
  if (text.size() <= width) return std::string(text);
  if (width <= 3) return std::string(text.substr(0, width));
  return absl::StrCat(text.substr(0, width - 3), "...");
}

std::string HumanBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  return unit == 0 ? absl::StrFormat("%d B", bytes) : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string HumanSeconds(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds >= 3600)
    return absl::StrFormat("%d h %02d min", static_cast<int>(seconds / 3600),
                           static_cast<int>(std::fmod(seconds, 3600) / 60));
  if (seconds >= 1) return absl::StrFormat("%.1f s", seconds);
  return absl::StrFormat("%.3g ms", seconds * 1e3);
}

std::string HumanNumber(double value) { return std::isfinite(value) ? absl::StrFormat("%.4g", value) : "-"; }

}  // namespace preheat::cli
