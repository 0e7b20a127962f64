#ifndef PREHEAT_CLIENT_COMPILECTL_TABLE_H_
#define PREHEAT_CLIENT_COMPILECTL_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace preheat::cli {

// A table for people. Widths are those of the cells; when a row would not fit, the columns that may shrink do,
// the widest first, and cut text ends with "...".
class Table {
 public:
  struct Column {
    std::string header;
    bool right = false;    // numbers
    bool shrinks = false;  // names
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell a column.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }

  // Lines of at most `width` bytes while the columns that may not shrink allow it.
  std::string Render(int width) const;
  // For standard output: its width on a terminal, uncut otherwise.
  std::string Render() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// At most `width` bytes; longer text ends with "...".
std::string Shorten(absl::string_view text, size_t width);

// "1.5 MiB", "12 B"
std::string HumanBytes(int64_t bytes);
// "12.3 s", "4.56 ms", "1 h 02 min"
std::string HumanSeconds(double seconds);
// Four significant digits; "-" for what is not finite.
std::string HumanNumber(double value);

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_TABLE_H_
