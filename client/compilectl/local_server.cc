#include "client/compilectl/local_server.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/compilectl/http_get.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kPoll = absl::Milliseconds(50);

void Sleep() { std::this_thread::sleep_for(absl::ToChronoMilliseconds(kPoll)); }

std::string ReadText(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A process that is there, is no zombie and is called preheatd: a pid from an old file may be anybody's by now.
bool IsPreheatd(int pid) {
  const std::string stat = ReadText(absl::StrCat("/proc/", pid, "/stat"));
  const size_t close = stat.rfind(')');
  if (close == std::string::npos || close + 2 >= stat.size() || stat[close + 2] == 'Z') return false;
  return absl::StrContains(stat.substr(0, close), "(preheatd");
}

absl::StatusOr<std::string> FindProgram(const std::string& wanted) {
  std::vector<fs::path> places = {wanted};
  if (wanted.empty()) {
    std::error_code error;
    places = {fs::read_symlink("/proc/self/exe", error).parent_path() / "preheatd"};
    const char* path = std::getenv("PATH");
    for (absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':', absl::SkipEmpty()))
      places.push_back(fs::path(std::string(folder)) / "preheatd");
  }
  for (const fs::path& place : places) {
    if (::access(place.c_str(), X_OK) == 0) return place.string();
  }
  return MakeError(absl::StatusCode::kNotFound,
                   {.kind = "no_preheatd",
                    .message = absl::StrCat("preheatd was not found at ", places[0].string()),
                    .where = places[0].string(),
                    .fix = "build it, or name it with --preheatd"});
}

std::string EndOfLog(const std::string& data_dir) {
  std::string log = ReadText(fs::path(data_dir) / "preheatd.log");
  constexpr size_t kLast = 2000;
  return log.size() > kLast ? log.substr(log.size() - kLast) : log;
}

// In the child: nothing but what may follow a fork.
[[noreturn]] void Become(const std::vector<char*>& arguments, int log) {
  ::setsid();
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  for (int fd = 3; fd < 256; ++fd) ::close(fd);
  ::signal(SIGPIPE, SIG_DFL);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

absl::StatusOr<pid_t> Spawn(const std::string& program, const StartOptions& options) {
  std::vector<std::string> texts = {program, "--data-dir", options.data_dir};
  texts.insert(texts.end(), options.flags.begin(), options.flags.end());
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  const std::string path = (fs::path(options.data_dir) / "preheatd.log").string();
  const int log = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const pid_t child = log < 0 ? -1 : ::fork();
  if (child == 0) Become(arguments, log);
  const int error = errno;
  if (log >= 0) ::close(log);
  if (child > 0) return child;
  return MakeError(absl::StatusCode::kInternal,
                   {.kind = "server_failed",
                    .message = absl::StrCat(log < 0 ? "cannot write " : "cannot start a process for ", path, ": ",
                                            std::strerror(error)),
                    .where = path,
                    .fix = ""});
}

absl::StatusOr<LocalServer> WaitUntilReady(const StartOptions& options, pid_t child) {
  const absl::Time end = absl::Now() + options.patience;
  while (absl::Now() < end) {
    int status = 0;
    if (child > 0 && ::waitpid(child, &status, WNOHANG) == child) {
      return MakeError(absl::StatusCode::kInternal,
                       {.kind = "server_failed",
                        .message = absl::StrCat("preheatd ended before it was ready:\n", EndOfLog(options.data_dir)),
                        .where = absl::StrCat(options.data_dir, "/preheatd.log"),
                        .fix = "see its log"});
    }
    const std::optional<LocalServer> server = FindServer(options.data_dir);
    if (server && IsReady(*server)) return *server;
    Sleep();
  }
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   {.kind = "not_ready",
                    .message = absl::StrCat("preheatd was not ready after ", absl::FormatDuration(options.patience),
                                            ":\n", EndOfLog(options.data_dir)),
                    .where = absl::StrCat(options.data_dir, "/preheatd.log"),
                    .fix = "see its log; `compilectl server stop` ends it"});
}

}  // namespace

std::string LocalServer::address() const { return absl::StrCat("127.0.0.1:", port); }

std::string DefaultDataDir() {
  for (const auto& [variable, below] :
       {std::pair{"XDG_DATA_HOME", "/preheat/server"}, {"HOME", "/.local/share/preheat/server"}}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return absl::StrCat(value, below);
  }
  return "preheat-data";
}

std::optional<LocalServer> FindServer(const std::string& data_dir) {
  const auto json =
      nlohmann::json::parse(ReadText(fs::path(data_dir) / "server.json"), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  auto number = [&](const char* name) {
    const auto it = json.find(name);
    return it != json.end() && it->is_number_integer() ? it->get<int>() : 0;
  };
  const LocalServer server = {.pid = number("pid"), .port = number("port"), .http_port = number("http_port")};
  if (server.pid <= 1 || !IsPreheatd(server.pid)) return std::nullopt;
  return server;
}

bool IsReady(const LocalServer& server) { return HttpGetStatus(server.http_port, "/readyz", absl::Seconds(2)) == 200; }

absl::StatusOr<LocalServer> StartServer(const StartOptions& options) {
  if (FindServer(options.data_dir)) return WaitUntilReady(options, 0);
  ASSIGN_OR_RETURN(std::string program, FindProgram(options.program));
  std::error_code error;
  fs::create_directories(options.data_dir, error);
  if (error)
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.kind = "unwritable_file",
                      .message = absl::StrCat("cannot make ", options.data_dir, ": ", error.message()),
                      .where = options.data_dir,
                      .fix = "name another with --data-dir"});
  // What an earlier server left would be taken for this one's.
  fs::remove(fs::path(options.data_dir) / "server.json", error);
  ASSIGN_OR_RETURN(pid_t child, Spawn(program, options));
  return WaitUntilReady(options, child);
}

absl::StatusOr<LocalServer> StopServer(const std::string& data_dir, absl::Duration patience) {
  const std::optional<LocalServer> server = FindServer(data_dir);
  if (!server) {
    return MakeError(absl::StatusCode::kNotFound, {.kind = "no_server",
                                                   .message = absl::StrCat("no server runs in ", data_dir),
                                                   .where = data_dir,
                                                   .fix = "name its folder with --data-dir"});
  }
  ::kill(server->pid, SIGTERM);
  const absl::Time end = absl::Now() + patience;
  while (absl::Now() < end) {
    if (!IsPreheatd(server->pid)) return *server;
    Sleep();
  }
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   {.kind = "still_draining",
                    .message = absl::StrCat("preheatd (pid ", server->pid, ") still finishes its work"),
                    .where = data_dir,
                    .fix = "wait, or stop again with a longer --patience"});
}

}  // namespace preheat::cli
