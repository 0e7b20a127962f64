#include "compiler/codegen/cuda/nvrtc_helpers.h"

#include <sys/socket.h>
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
  int ends[2];  // ours ends with this process, and no other process we start has it
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return nullptr;
  SubprocessOptions options;
  options.input = ends[1];
  absl::StatusOr<std::unique_ptr<Subprocess>> process = Subprocess::Start({program}, options);
  close(ends[1]);
  if (!process.ok()) {
    close(ends[0]);
    return nullptr;
  }
  std::unique_ptr<NvrtcHelper> helper(new NvrtcHelper(ends[0], *std::move(process)));
  return ReceiveFrame(ends[0]) == version ? std::move(helper) : nullptr;
}

NvrtcHelper::~NvrtcHelper() { close(socket_); }

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
