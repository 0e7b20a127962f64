#include "client/compilectl/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/support/human.h"

namespace preheat::cli {
namespace {

constexpr int kBarWidth = 24;

}  // namespace

int TerminalWidth(int fd) {
  int columns = 0;
  const char* variable = std::getenv("COLUMNS");
  if (variable != nullptr && absl::SimpleAtoi(variable, &columns) && columns > 0) return columns;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { Clear(); }

void Progress::Stage(absl::string_view what, const v1::Progress& progress) {
  std::string text = absl::StrCat(what, what.empty() ? "" : ": ", progress.stage());
  // Details change with every kernel: a bar may show them, lines in a log may not.
  if (terminal_ && !progress.detail().empty()) absl::StrAppend(&text, " ", progress.detail());
  std::lock_guard lock(mutex_);
  Draw(progress.fraction(), text);
}

void Progress::Items(int done, int total, absl::string_view last) {
  std::lock_guard lock(mutex_);
  Draw(total > 0 ? static_cast<double>(done) / total : 1.0, absl::StrCat(done, "/", total, " ", last));
}

void Progress::Working(int done, int total, absl::string_view what, const v1::Progress& progress) {
  if (terminal_) Items(done, total, absl::StrCat(what, ": ", progress.stage()));
}

void Progress::Note(absl::string_view line) {
  if (quiet_) return;
  Clear();
  std::lock_guard lock(mutex_);
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

void Progress::Clear() {
  std::lock_guard lock(mutex_);
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void Progress::Draw(double fraction, absl::string_view text) {
  if (quiet_) return;
  const std::string printable = Printable(text);
  if (!terminal_) {
    if (printable == last_line_) return;
    last_line_ = printable;
    std::fprintf(stderr, "%s\n", last_line_.c_str());
    return;
  }
  const int filled = std::clamp(static_cast<int>(fraction * kBarWidth), 0, kBarWidth);
  const std::string bar =
      absl::StrCat("[", std::string(filled, '#'), std::string(kBarWidth - filled, ' '), "] ", printable);
  std::fprintf(stderr, "\r\033[K%s",
               Shorten(bar, static_cast<size_t>(std::max(8, TerminalWidth(STDERR_FILENO) - 1))).c_str());
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace preheat::cli
