#ifndef PREHEAT_CLIENT_COMPILECTL_PROGRESS_H_
#define PREHEAT_CLIENT_COMPILECTL_PROGRESS_H_

#include <mutex>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat::cli {

// What goes on, on stderr: one line that is redrawn on a terminal, a plain line for each change otherwise.
// Thread-safe.
class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A stage of one compile.
  void Stage(absl::string_view what, const v1::Progress& progress);
  // `done` of `total` items; `last` is the one that has just ended.
  void Items(int done, int total, absl::string_view last);
  // Meanwhile: what one of the items is doing. Only a bar shows it.
  void Working(int done, int total, absl::string_view what, const v1::Progress& progress);
  // A line that stays.
  void Note(absl::string_view line);
  // Removes the bar, so that what follows starts on a clean line.
  void Clear();

 private:
  void Draw(double fraction, absl::string_view text);

  const bool quiet_;
  const bool terminal_;
  std::mutex mutex_;
  bool drawn_ = false;     // guarded by mutex_: a bar stands on the terminal
  std::string last_line_;  // guarded by mutex_: the last plain line, so that none is repeated
};

// Columns of the terminal on that file descriptor: COLUMNS, what the terminal says, else 80.
int TerminalWidth(int fd);

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_PROGRESS_H_
