#include "server/config.h"

#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <sstream>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "compiler/support/version.h"

namespace preheat::server {
namespace {

constexpr int64_t kMany = std::numeric_limits<int32_t>::max();
constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

// One setting: its name, where it goes, its bounds if it is a number, and what it does.
struct Field {
  const char* name;
  std::variant<std::string*, int64_t*, bool*> value;
  const char* help;
  int64_t min = 0, max = kAny;
  std::vector<std::string> choices = {};  // of a text; none: any
};

std::vector<Field> FieldsOf(Config& c) {
  return {
      {"data_dir", &c.data_dir, "folder of all durable state"},
      {"listen", &c.listen, "address to listen on; empty: 0.0.0.0 with a token_file or tls_client_ca, else 127.0.0.1"},
      {"port", &c.port, "gRPC port; 0 takes a free one, which data_dir/server.json names", 0, 65535},
      {"http_port", &c.http_port, "HTTP port: /metrics, /healthz, /readyz, /", 0, 65535},
      {"workers", &c.workers, "worker processes", 0, 1024},
      {"gpu_workers", &c.gpu_workers,
       "worker processes besides, each for a GPU on which it verifies and tunes while nobody else uses it; -1: one for "
       "each GPU of the machine",
       -1, 1024},
      {"worker_program", &c.worker_program, "preheat-worker, when it is not beside preheatd"},
      {"drain_seconds", &c.drain_seconds, "time for running compiles after SIGTERM", 0, kMany},
      {"task_deadline_seconds", &c.task_deadline_seconds, "longest time of one compile or verification", 1, kMany},
      {"heartbeat_seconds", &c.heartbeat_seconds, "longest silence of a worker", 3, kMany},
      {"max_queue", &c.max_queue, "tasks that may wait for a worker", 1, kMany},
      {"max_waiting", &c.max_waiting, "requests that may wait for a compile", 1, kMany},
      {"max_request_bytes", &c.max_request_bytes, "largest request", 1024, int64_t{256} << 20},
      {"worker_memory_bytes", &c.worker_memory_bytes,
       "resident memory of a worker with its children; 0: half of the machine's, shared among them"},
      {"max_cache_bytes", &c.max_cache_bytes, "evict above this; 0: no limit"},
      {"gc_age_seconds", &c.gc_age_seconds, "blobs that nothing names are kept this long after their last use", 0,
       kMany},
      {"gc_every_seconds", &c.gc_every_seconds, "time between evictions and sweeps", 1, kMany},
      {"verify", &c.verify, "hold each new artifact against the reference after the reply"},
      {"verify_first", &c.verify_first, "with verify: hold it against the reference before the reply, which waits"},
      {"tune_when_busy", &c.tune_when_busy, "tune while other processes use the device"},
      {"tune_after_seconds", &c.tune_after_seconds,
       "in mode background, tuning begins this long after the job has asked, when no request waits", 0, kMany},
      {"token_file", &c.token_file,
       "file of tokens: lines of NAME NAMESPACE user|admin SHA256; empty: everybody may call"},
      {"quota_file", &c.quota_file,
       "file of quotas: lines of NAMESPACE COMPILES BYTES, as in: research 20 50G; empty: no limits"},
      {"tls_cert", &c.tls_cert, "PEM file of the server's certificate; with tls_key, clients speak TLS"},
      {"tls_key", &c.tls_key, "PEM file of the server's key"},
      {"tls_client_ca", &c.tls_client_ca, "PEM file of the authority that must have signed a client's certificate"},
      {"log_level",
       &c.log_level,
       "least level that is logged: trace, debug, info, warn, error",
       0,
       kAny,
       {"trace", "debug", "info", "warn", "error"}},
      {"log_format",
       &c.log_format,
       "text, json (an object a line), or auto: text on a terminal, json otherwise",
       0,
       kAny,
       {"auto", "text", "json"}},
  };
}

absl::Status Invalid(std::string message, std::string where, std::string fix) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = "invalid_config", .message = std::move(message), .where = std::move(where), .fix = std::move(fix)});
}

std::string At(const std::string& file, const YAML::Mark& mark) {
  return absl::StrCat(file, ":", mark.line + 1, ":", mark.column + 1);
}

absl::Status CheckBounds(const Field& field, const std::string& where) {
  if (auto* text = std::get_if<std::string*>(&field.value); text != nullptr && !field.choices.empty()) {
    if (std::find(field.choices.begin(), field.choices.end(), **text) != field.choices.end()) return absl::OkStatus();
    return Invalid(absl::StrCat(field.name, " is \"", **text, "\""), where,
                   absl::StrCat("give one of ", absl::StrJoin(field.choices, ", ")));
  }
  auto* number = std::get_if<int64_t*>(&field.value);
  if (number == nullptr || (**number >= field.min && **number <= field.max)) return absl::OkStatus();
  return Invalid(absl::StrCat(field.name, " is ", **number), where,
                 absl::StrCat("give a number from ", field.min, " to ", field.max));
}

absl::Status ReadField(const Field& field, const YAML::Node& node, const std::string& where) {
  bool ok = std::visit(
      [&](auto* target) {
        return node.IsScalar() && YAML::convert<std::decay_t<decltype(*target)>>::decode(node, *target);
      },
      field.value);
  if (!ok)
    return Invalid(absl::StrCat(field.name, " cannot be \"", node.IsScalar() ? node.Scalar() : "a list or map", "\""),
                   where, field.help);
  return CheckBounds(field, where);
}

absl::Status ReadNode(const YAML::Node& root, const std::string& path, const std::vector<Field>& fields) {
  if (root.IsNull()) return absl::OkStatus();
  if (!root.IsMap())
    return Invalid("the file is no map of settings", At(path, root.Mark()), "write lines like \"port: 7433\"");
  for (const auto& entry : root) {
    std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "";
    auto field = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
    if (field == fields.end()) {
      std::string names = absl::StrJoin(fields, ", ", [](std::string* out, const Field& f) { out->append(f.name); });
      return Invalid(absl::StrCat("no such setting: ", name), At(path, entry.first.Mark()),
                     absl::StrCat("one of ", names));
    }
    RETURN_IF_ERROR(ReadField(*field, entry.second, At(path, entry.second.Mark())));
  }
  return absl::OkStatus();
}

absl::Status ReadFile(const std::string& path, const std::vector<Field>& fields) {
  try {
    return ReadNode(YAML::LoadFile(path), path, fields);
  } catch (const YAML::BadFile&) {
    return Invalid("the file cannot be read", path, "give the path of a YAML file to --config");
  } catch (const YAML::Exception& error) {
    return Invalid(error.msg, At(path, error.mark), "");
  }
}

std::string FlagOf(const Field& field) { return absl::StrCat("--", absl::StrReplaceAll(field.name, {{"_", "-"}})); }

struct Flags {
  std::string config;
  bool check = false;
};

// Parses the flags: settings into what `fields` point at, the others are returned.
absl::StatusOr<Flags> ReadFlags(int argc, const char* const* argv, const std::vector<Field>& fields) {
  CLI::App app("preheatd: compiles tensor programs once and serves the result to every job that asks for it");
  Flags flags;
  app.add_option("--config", flags.config, "YAML file of settings; flags win over it");
  app.add_flag("--check-config", flags.check, "print all settings as they would be used, and leave");
  app.set_version_flag("--version", absl::StrCat("preheatd ", Version()));
  for (const Field& field : fields) {
    std::visit([&](auto* target) { app.add_option(FlagOf(field), *target, field.help)->capture_default_str(); },
               field.value);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, ignored;
    if (app.exit(error, out, ignored) == 0) return absl::CancelledError(out.str());
    return Invalid(error.what(), "", "preheatd --help lists the flags");
  }
  return flags;
}

// As a file that --config takes.
std::string Print(const std::vector<Field>& fields) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const Field& field : fields)
    std::visit([&](auto* value) { out << YAML::Key << field.name << YAML::Value << *value; }, field.value);
  out << YAML::EndMap;
  return absl::StrCat(out.c_str(), "\n");
}

}  // namespace

absl::StatusOr<Config> ReadConfig(int argc, const char* const* argv) {
  Config config;
  ASSIGN_OR_RETURN(const Flags flags, ReadFlags(argc, argv, FieldsOf(config)));
  if (!flags.config.empty()) {
    config = Config();
    RETURN_IF_ERROR(ReadFile(flags.config, FieldsOf(config)));
    RETURN_IF_ERROR(ReadFlags(argc, argv, FieldsOf(config)).status());  // again, over the file
  }
  for (const Field& field : FieldsOf(config)) RETURN_IF_ERROR(CheckBounds(field, FlagOf(field)));
  if (config.tls_cert.empty() != config.tls_key.empty()) {
    return Invalid("tls_cert and tls_key belong together", config.tls_cert.empty() ? "--tls-cert" : "--tls-key",
                   "give both, or none");
  }
  if (!config.tls_client_ca.empty() && config.tls_cert.empty())
    return Invalid("clients show certificates only under TLS", "--tls-client-ca", "give --tls-cert and --tls-key too");
  if (flags.check) return absl::CancelledError(Print(FieldsOf(config)));
  if (config.listen.empty())
    config.listen = config.token_file.empty() && config.tls_client_ca.empty() ? "127.0.0.1" : "0.0.0.0";
  return config;
}

}  // namespace preheat::server
