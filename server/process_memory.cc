#include "server/process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace preheat::server {
namespace {

constexpr int kDeepest = 8;  // worker, compiler driver, compiler, linker: more is no tree of ours

int64_t ResidentBytes(pid_t pid) {
  int64_t total = 0, resident = 0;
  std::ifstream(absl::StrCat("/proc/", pid, "/statm")) >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t ResidentBytes(pid_t pid, int depth) {
  int64_t bytes = ResidentBytes(pid);
  if (depth == kDeepest) return bytes;
  std::error_code error;  // the process may end meanwhile
  std::filesystem::directory_iterator task(absl::StrCat("/proc/", pid, "/task"), error), end;
  for (; !error && task != end; task.increment(error)) {
    std::ifstream children(task->path() / "children");  // absent in kernels without it: then the process alone counts
    for (pid_t child = 0; children >> child;) bytes += ResidentBytes(child, depth + 1);
  }
  return bytes;
}

}  // namespace

int64_t ResidentBytesWithChildren(pid_t pid) { return ResidentBytes(pid, 0); }

int64_t MachineMemoryBytes() {
  int64_t bytes = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  int64_t limit = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit && limit > 0) bytes = std::min(bytes, limit);
  return bytes;
}

}  // namespace preheat::server
