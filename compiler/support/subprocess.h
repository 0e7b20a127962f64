#ifndef PREHEAT_COMPILER_SUPPORT_SUBPROCESS_H_
#define PREHEAT_COMPILER_SUPPORT_SUBPROCESS_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace preheat {

struct SubprocessOptions {
  int input = -1;                                  // a file of this process that is the child's stdin; -1: nothing
  std::string log_file;                            // stdout and stderr are appended there; empty: inherited
  std::map<std::string, std::string> environment;  // set for the child, beside what this process has
};

// How a process ended.
struct ProcessEnd {
  int exit_code = 0;  // when signal is 0
  int signal = 0;
  bool Clean() const { return exit_code == 0 && signal == 0; }
  std::string ToString() const;  // "exit status 3", "signal 9 (Killed)"
};

// A child process, leader of a process group of its own (so that its children end with it, and a terminal's
// interrupt does not reach it). It is killed when this object goes while it still runs.
// Kill may be called from any thread at any time; Wait from one thread, once.
class Subprocess {
 public:
  // argv[0] is a path, or a name that is looked up in PATH. NOT_FOUND or INTERNAL when it cannot be started.
  static absl::StatusOr<std::unique_ptr<Subprocess>> Start(const std::vector<std::string>& argv,
                                                           const SubprocessOptions& options = {});
  Subprocess(const Subprocess&) = delete;
  ~Subprocess();

  pid_t pid() const { return pid_; }  // also after its end, when the number may be another's
  // Blocks until it ends, then kills what is left of its group.
  ProcessEnd Wait();
  // Sends the signal to the whole group; nothing once it was waited for.
  void Kill(int signal);

 private:
  explicit Subprocess(pid_t pid) : pid_(pid) {}
  const pid_t pid_;
  std::mutex mutex_;  // held while signalling and reaping, so that no signal meets another's number
  bool reaped_ = false;
};

}  // namespace preheat

#endif  // PREHEAT_COMPILER_SUPPORT_SUBPROCESS_H_
