#include "server/worker/fault_hook.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"

namespace preheat::worker {
namespace {

[[noreturn]] void Crash() {
  kill(getpid(), SIGSEGV);
  while (true) pause();
}

[[noreturn]] void Grow() {
  constexpr size_t kStep = size_t{16} << 20;
  std::vector<std::unique_ptr<char[]>> held;
  while (true) {
    held.push_back(std::make_unique<char[]>(kStep));
    std::memset(held.back().get(), 1, kStep);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void CrashOnce(const std::string& mark) {
  if (access(mark.c_str(), F_OK) == 0) return;
  std::ofstream(mark) << "crashed\n";
  Crash();
}

void Do(const std::string& what) {
  if (what == "crash") Crash();
  if (what == "grow") Grow();
  if (what == "stop") kill(getpid(), SIGSTOP);
  while (what == "hang" || what == "stop") pause();
}

}  // namespace

void DoWhatFaultsSay(const std::string& request_name) {
  const char* faults = std::getenv("PREHEAT_WORKER_FAULT");
  if (faults == nullptr) return;
  for (absl::string_view fault : absl::StrSplit(faults, ',')) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(fault, absl::MaxSplits('=', 1));
    const std::pair<std::string, std::string> marked = absl::StrSplit(parts.second, absl::MaxSplits(':', 1));
    if (parts.first == "crash-once" && marked.second == request_name) CrashOnce(marked.first);
    if (parts.second == request_name) Do(parts.first);
  }
}

}  // namespace preheat::worker
