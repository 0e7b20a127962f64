#include "server/process_use.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace preheat::server {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// Field 22 of stat, in ticks since the machine booted. The name before it may hold anything.
double StartUnixSeconds() {
  std::ifstream in("/proc/self/stat");
  const std::string stat{std::istreambuf_iterator<char>(in), {}};
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(stat.rfind(')') + 1), ' ', absl::SkipEmpty());
  int64_t ticks = 0;
  if (fields.size() < 20 || !absl::SimpleAtoi(fields[19], &ticks)) return 0;
  timespec now{}, since_boot{};
  clock_gettime(CLOCK_REALTIME, &now);
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  const double boot = static_cast<double>(now.tv_sec - since_boot.tv_sec);
  return boot + static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessUse ReadProcessUse() {
  ProcessUse use;
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  use.resident_bytes = resident * sysconf(_SC_PAGESIZE);
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end; it.increment(error))
    ++use.open_files;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) use.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  static const double start = StartUnixSeconds();
  use.start_unix_seconds = start;
  return use;
}

}  // namespace preheat::server
