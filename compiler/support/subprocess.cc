#include "compiler/support/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"

extern char** environ;

namespace preheat {
namespace {

// posix_spawn's two argument objects, freed together.
struct SpawnArguments {
  SpawnArguments() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnArguments() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

// A server blocks or ignores signals that its children should see as usual.
void ResetSignals(posix_spawnattr_t* attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(attributes, &none);
  posix_spawnattr_setsigdefault(attributes, &all);
}

// "NAME=value" of this process, but for the names that are overridden.
std::vector<std::string> Environment(const std::map<std::string, std::string>& overrides) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string text = *entry;
    if (overrides.count(text.substr(0, text.find('='))) == 0) entries.push_back(std::move(text));
  }
  for (const auto& [name, value] : overrides) entries.push_back(absl::StrCat(name, "=", value));
  return entries;
}

// What exec wants: pointers, and a null after the last.
std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::string ProcessEnd::ToString() const {
  if (signal != 0) return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
  return absl::StrCat("exit status ", exit_code);
}

absl::StatusOr<std::unique_ptr<Subprocess>> Subprocess::Start(const std::vector<std::string>& argv,
                                                              const SubprocessOptions& options) {
  SpawnArguments arguments;
  ResetSignals(&arguments.attributes);
  posix_spawnattr_setpgroup(&arguments.attributes, 0);
  posix_spawnattr_setflags(&arguments.attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (options.input >= 0) {
    posix_spawn_file_actions_adddup2(&arguments.files, options.input, 0);
  } else {
    posix_spawn_file_actions_addopen(&arguments.files, 0, "/dev/null", O_RDONLY, 0);
  }
  if (!options.log_file.empty()) {
    posix_spawn_file_actions_addopen(&arguments.files, 1, options.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                     0644);
    posix_spawn_file_actions_adddup2(&arguments.files, 1, 2);
  }
  std::vector<std::string> environment = Environment(options.environment);
  std::vector<char*> raw = Pointers(argv);
  pid_t pid = -1;
  int error =
      posix_spawnp(&pid, raw[0], &arguments.files, &arguments.attributes, raw.data(), Pointers(environment).data());
  if (error == 0) return std::unique_ptr<Subprocess>(new Subprocess(pid));
  return MakeError(error == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInternal,
                   {.kind = "cannot_start_process",
                    .message = absl::StrCat("cannot start ", argv[0], ": ", strerror(error)),
                    .where = options.log_file,
                    .fix = "check that the program is installed and may be executed"});
}

Subprocess::~Subprocess() {
  if (reaped_) return;
  Kill(SIGKILL);
  Wait();
}

ProcessEnd Subprocess::Wait() {
  siginfo_t info;
  while (waitid(P_PID, pid_, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  std::lock_guard lock(mutex_);
  kill(-pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  ProcessEnd end;
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  return end;
}

void Subprocess::Kill(int signal) {
  std::lock_guard lock(mutex_);
  if (!reaped_) kill(-pid_, signal);
}

}  // namespace preheat
