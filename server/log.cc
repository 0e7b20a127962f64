#include "server/log.h"

#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "compiler/support/human.h"

namespace preheat::server {
namespace {

using Json = nlohmann::ordered_json;

std::atomic<bool> as_json = false;

// In front of a payload that is the fields of an object already, not a message.
constexpr char kFields = '\x1e';

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

class JsonLines : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const absl::string_view payload(message.payload.data(), message.payload.size());
    const auto level = spdlog::level::to_string_view(message.level);
    const absl::Time time = absl::FromChrono(message.time);
    std::string line = absl::StrCat("{\"time\":\"", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone()),
                                    "\",\"level\":\"", absl::string_view(level.data(), level.size()), "\",");
    if (!payload.empty() && payload[0] == kFields) {
      absl::StrAppend(&line, payload.substr(1), "}\n");
    } else {
      absl::StrAppend(&line, "\"message\":", Dump(std::string(payload)), "}\n");
    }
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonLines>(); }
};

std::string TextOf(const LogField& field) {
  if (const auto* number = std::get_if<double>(&field.value)) return absl::StrFormat("%.3f", *number);
  if (const auto* number = std::get_if<int64_t>(&field.value)) return absl::StrCat(*number);
  const std::string text = Printable(std::get<std::string>(field.value));
  return text.empty() || absl::StrContains(text, ' ') ? absl::StrCat("\"", text, "\"") : text;
}

}  // namespace

void SetUpLog(const std::string& level, const std::string& format) {
  spdlog::drop("preheatd");
  spdlog::set_default_logger(spdlog::stderr_color_mt("preheatd"));
  spdlog::set_level(spdlog::level::from_str(level));
  as_json = format == "json" || (format == "auto" && isatty(STDERR_FILENO) == 0);
  if (as_json) spdlog::default_logger()->set_formatter(std::make_unique<JsonLines>());
}

void LogEvent(spdlog::level::level_enum level, absl::string_view message, std::initializer_list<LogField> fields) {
  if (!spdlog::should_log(level)) return;
  if (as_json) {
    Json object = {{"message", std::string(message)}};
    for (const LogField& field : fields)
      std::visit([&](const auto& value) { object[field.name] = value; }, field.value);
    const std::string text = Dump(object);
    spdlog::log(level, "{}{}", kFields, text.substr(1, text.size() - 2));
    return;
  }
  std::string line(message);
  for (const LogField& field : fields) absl::StrAppend(&line, " ", field.name, "=", TextOf(field));
  spdlog::log(level, "{}", line);
}

}  // namespace preheat::server
