#include "compiler/codegen/cuda/nvrtc_helpers.h"

#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/codegen/cuda/nvrtc_wire.h"

namespace preheat::codegen {
namespace {

constexpr int kMostHelpers = 16;
constexpr int kLeastProcessors = 4;

// The process with `its` end of a socket as its standard input; -1 where it does not start.
pid_t Spawn(const std::string& program, int its) {
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) return -1;
  pid_t pid = -1;
  std::string name = program;
  char* arguments[] = {name.data(), nullptr};
  if (posix_spawn_file_actions_adddup2(&actions, its, STDIN_FILENO) != 0 ||
      posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments, environ) != 0) {
    pid = -1;
  }
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

std::string ProgramBesideThis() {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? "" : (self.parent_path() / "preheat-nvrtc").string();
}

int MostHelpers() {
  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  return processors < kLeastProcessors ? 0 : std::min(processors, kMostHelpers);
}

}  // namespace

std::unique_ptr<NvrtcHelper> NvrtcHelper::Start(const std::string& program, const std::string& version) {
  std::error_code failed;
  if (!std::filesystem::exists(program, failed)) return nullptr;
  int ends[2];  // ours ends with this process, and no other process we start has it
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return nullptr;
  const pid_t pid = Spawn(program, ends[1]);
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return nullptr;
  }
  std::unique_ptr<NvrtcHelper> helper(new NvrtcHelper(ends[0], pid));
  return ReceiveFrame(ends[0]) == version ? std::move(helper) : nullptr;
}

NvrtcHelper::~NvrtcHelper() {
  close(socket_);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::optional<Cubin> NvrtcHelper::Compile(const std::string& source, const std::vector<std::string>& flags) {
  std::optional<std::string> numbers, bytes;
  alive_ = SendFrame(socket_, absl::StrJoin(flags, "\n")) && SendFrame(socket_, source) &&
           (numbers = ReceiveFrame(socket_)).has_value() && (bytes = ReceiveFrame(socket_)).has_value();
  if (!alive_) return std::nullopt;
  Cubin cubin;
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(*numbers, ' ');
  if (!absl::SimpleAtoi(parts.first, &cubin.registers) || !absl::SimpleAtoi(parts.second, &cubin.spill_bytes)) {
    return std::nullopt;
  }
  cubin.bytes = *std::move(bytes);
  return cubin;
}

NvrtcHelpers& NvrtcHelpers::OfProcess() {
  static NvrtcHelpers& helpers = *[] {
    auto* made = new NvrtcHelpers;
    std::thread([made] { made->Start(ProgramBesideThis(), MostHelpers()); }).detach();
    return made;
  }();
  return helpers;
}

void NvrtcHelpers::Start(const std::string& program, int count) {
  const absl::StatusOr<std::string> version = NvrtcVersion();
  if (!version.ok()) return;
  std::vector<std::thread> starting;
  for (int i = 0; i < count; ++i) {
    starting.emplace_back([&] {
      std::unique_ptr<NvrtcHelper> helper = NvrtcHelper::Start(program, *version);
      if (helper != nullptr) Give(std::move(helper));
    });
  }
  for (std::thread& thread : starting) thread.join();
}

std::unique_ptr<NvrtcHelper> NvrtcHelpers::Take() {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) return nullptr;
  std::unique_ptr<NvrtcHelper> helper = std::move(idle_.back());
  idle_.pop_back();
  return helper;
}

void NvrtcHelpers::Give(std::unique_ptr<NvrtcHelper> helper) {
  if (!helper->alive()) return;
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(helper));
}

}  // namespace preheat::codegen
