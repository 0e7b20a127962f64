#include "client/cpp/environment.h"

#include <gnu/libc-version.h>
#include <sched.h>

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "compiler/support/version.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat {
namespace {

// The CPUs that this process may use, or fewer when OMP_NUM_THREADS says so.
int Threads() {
  int threads = 0;
  const char* wanted = std::getenv("OMP_NUM_THREADS");
  if (wanted != nullptr && absl::SimpleAtoi(wanted, &threads) && threads > 0) return threads;
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

v1::ClientEnvironment HostEnvironment() {
  v1::ClientEnvironment environment;
  environment.set_min_plan_version(preheat_plan_version_min());
  environment.set_max_plan_version(preheat_plan_version_max());
  environment.set_runtime_abi(preheat_runtime_abi());
  environment.set_cpu(preheat_host_target());
  environment.set_threads(Threads());
  environment.set_glibc(gnu_get_libc_version());
  environment.set_client_version(Version());
  return environment;
}

}  // namespace preheat
