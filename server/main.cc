#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <memory>
#include <string>

#include "compiler/support/error.h"
#include "server/config.h"
#include "server/daemon.h"
#include "server/log.h"
#include "server/service_manager.h"

namespace {

int Fail(const absl::Status& status, int exit_code) {
  preheat::Error error = preheat::GetError(status);
  std::string where = error.where.empty() ? "" : error.where + ": ";
  std::fprintf(stderr, "preheatd: %s%s\n", where.c_str(), error.message.c_str());
  if (!error.fix.empty()) std::fprintf(stderr, "  %s\n", error.fix.c_str());
  return exit_code;
}

// What large messages take goes back to the system when they are gone: glibc would raise its threshold to the largest
// block that was freed, and keep such blocks in one arena of many, where other threads do not find them.
void BoundIdleMemory() {
  constexpr int kLargeBlock = 1 << 20, kArenas = 2;
  mallopt(M_MMAP_THRESHOLD, kLargeBlock);
  mallopt(M_ARENA_MAX, kArenas);
}

}  // namespace

int main(int argc, char** argv) {
  BoundIdleMemory();
  absl::StatusOr<preheat::server::Config> config = preheat::server::ReadConfig(argc, argv);
  if (absl::IsCancelled(config.status())) {
    std::fputs(std::string(config.status().message()).c_str(), stdout);
    return 0;
  }
  if (!config.ok()) return Fail(config.status(), 2);
  preheat::server::SetUpLog(config->log_level, config->log_format);

  // Blocked in every thread that comes later; this one waits for them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  absl::StatusOr<std::unique_ptr<preheat::server::Daemon>> daemon = preheat::server::Daemon::Start(*config);
  if (!daemon.ok()) return Fail(daemon.status(), 1);
  spdlog::info("gRPC on port {}, HTTP on port {}, data in {}", (*daemon)->port(), (*daemon)->http_port(),
               config->data_dir);
  preheat::server::NotifyServiceManager("READY=1");
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  preheat::server::NotifyServiceManager("STOPPING=1");
  (*daemon)->Drain();
  return 0;
}
