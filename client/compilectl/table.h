#ifndef PREHEAT_CLIENT_COMPILECTL_TABLE_H_
#define PREHEAT_CLIENT_COMPILECTL_TABLE_H_

#include <string>
#include <utility>
#include <vector>

#include "compiler/support/human.h"

namespace preheat::cli {

// A table for people. Widths are those of the cells; where a row would not fit, optional columns go, the last first,
// and then the columns that may shrink do, the widest first; cut text ends with "...".
class Table {
 public:
  struct Column {
    std::string header;
    bool right = false;     // numbers
    bool shrinks = false;   // names
    bool optional = false;  // left out on a narrow terminal
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell a column; made printable.
  void Add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Lines of at most `width` columns while those that may not shrink allow it.
  std::string Render(int width) const;
  // For standard output: the width of its terminal, or COLUMNS; uncut into a file or pipe.
  std::string Render() const;

 private:
  std::vector<size_t> FitColumns(size_t width, std::vector<bool>& shown) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_TABLE_H_
