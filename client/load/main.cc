// preheat-load: how many hits a second a server gives, and how fast. Asks as many fresh processes would.

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_format.h"
#include "client/compilectl/report.h"
#include "client/load/run_load.h"
#include "compiler/support/error.h"

namespace preheat::load {
namespace {

using cli::Json;

struct Flags {
  LoadOptions load;
  std::string fetch = "all";
  bool json = false;
  bool quiet = false;
};

void AddFlags(CLI::App& app, Flags& flags) {
  LoadOptions& load = flags.load;
  app.add_option("--server", load.client.server, "HOST:PORT of preheatd (PREHEAT_SERVER; default localhost:7433)");
  app.add_option("--clients", load.clients, "how many ask at once")->capture_default_str();
  app.add_option("--seconds", load.seconds, "how long")->capture_default_str();
  CLI::Option* program = app.add_option("--program", load.program, "a model file whose artifact is asked for");
  app.add_option("--keys", load.keys, "that many distinct programs of our own")
      ->capture_default_str()
      ->excludes(program);
  app.add_option("--seed", load.seed, "what our own programs are made from")
      ->check(CLI::Range(uint64_t{0}, (uint64_t{1} << 59) - 1))
      ->capture_default_str();
  app.add_option("--fetch", flags.fetch, "all: every blob, verified; none: the lookup alone")
      ->check(CLI::IsMember({"all", "none"}))
      ->capture_default_str();
  app.add_option("--miss-share", load.miss_share, "share of requests for programs that nobody has compiled")
      ->capture_default_str();
  app.add_flag("--json", flags.json, "one JSON document on stdout");
  app.add_flag("-q,--quiet", flags.quiet, "no progress on stderr");
  app.add_option("--tls-ca", load.client.tls_ca, "PEM file of the authority that signed the server");
  app.add_option("--tls-cert", load.client.tls_cert, "PEM file of the client's certificate");
  app.add_option("--tls-key", load.client.tls_key, "PEM file of the client's key");
  app.add_option("--token-file", load.client.token_file, "file with the bearer token (PREHEAT_TOKEN_FILE)");
}

Json Document(const LoadReport& report) {
  const Tally& tally = report.tally;
  return {{"hits_per_s", cli::Number(static_cast<double>(tally.hit_ms.size()) / report.seconds)},
          {"bytes_per_s", cli::Number(static_cast<double>(tally.bytes) / report.seconds)},
          {"p50_ms", cli::Number(Quantile(tally.hit_ms, 0.5))},
          {"p99_ms", cli::Number(Quantile(tally.hit_ms, 0.99))},
          {"compiles", tally.compiles},
          {"errors", tally.errors},
          {"hits", tally.hit_ms.size()},
          {"coalesced", tally.coalesced},
          {"programs", report.programs},
          {"compiled_before", report.warmed},
          {"seconds", report.seconds},
          {"first_error", tally.first_error}};
}

std::string Text(const LoadReport& report) {
  const Tally& tally = report.tally;
  std::string text =
      absl::StrFormat("%.0f hits/s   p50 %.2f ms   p99 %.2f ms   %.1f MB/s   %d compiled   %d errors\n",
                      static_cast<double>(tally.hit_ms.size()) / report.seconds, Quantile(tally.hit_ms, 0.5),
                      Quantile(tally.hit_ms, 0.99), static_cast<double>(tally.bytes) / report.seconds / 1e6,
                      tally.compiles, tally.errors);
  if (!tally.first_error.empty()) absl::StrAppendFormat(&text, "first error: %s\n", tally.first_error);
  return text;
}

void Print(const Json& document) {
  std::printf("%s\n", document.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

int Fail(const absl::Status& status, bool json) {
  if (json) Print({{"error", cli::ErrorObject(status)}});
  std::fputs(cli::ErrorText(status).c_str(), stderr);
  return cli::ExitStatus(status);
}

int Main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Asks a preheatd as many clients at once would, and says how fast it answers.", "preheat-load");
  Flags flags;
  AddFlags(app, flags);
  bool json = false;
  for (int i = 1; i < argc; ++i) json |= std::strcmp(argv[i], "--json") == 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return Fail(
        MakeError(
            absl::StatusCode::kInvalidArgument,
            {.kind = "usage", .message = error.what(), .where = "command line", .fix = "see preheat-load --help"}),
        json);
  }
  flags.load.fetch_all = flags.fetch == "all";
  auto report = RunLoad(flags.load, [&](const std::string& line) {
    if (!flags.quiet) std::fprintf(stderr, "%s\n", line.c_str());
  });
  if (!report.ok()) return Fail(report.status(), flags.json);
  if (flags.json) {
    Print(Document(*report));
  } else {
    std::fputs(Text(*report).c_str(), stdout);
  }
  return report->tally.errors == 0 ? 0 : 1;
}

}  // namespace
}  // namespace preheat::load

int main(int argc, char** argv) { return preheat::load::Main(argc, argv); }
