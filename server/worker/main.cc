#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

#include "server/worker/worker.h"
#include "server/worker/worker_gpu.h"

// Started by preheatd and of no use without it: it ends when its parent does.
int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_IGN);
  preheat::worker::WorkerOptions options;
  CLI::App app("preheat-worker: compiles and verifies for preheatd, which starts it");
  app.add_option("--server", options.server, "host:port of preheatd")->required();
  app.add_option("--id", options.id, "name in listings")->capture_default_str();
  app.add_option("--device", options.device, "what it runs on: cpu:0, cuda:0")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (const char* token = std::getenv("PREHEAT_POOL_TOKEN")) options.pool_token = token;
  spdlog::set_default_logger(spdlog::stderr_color_mt(options.id));
  if (!preheat::worker::SelectDevice(options.device)) {
    spdlog::error("{} is not there", options.device);
    return 3;  // preheatd starts it no more
  }
  absl::Status status = preheat::worker::RunWorker(options);
  if (!status.ok()) spdlog::error("{}", std::string(status.message()));
  spdlog::default_logger()->flush();
  // Not exit(): a task may still be running, and nothing here has to be tidied up.
  _exit(status.ok() ? 0 : 1);
}
