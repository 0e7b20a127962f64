#ifndef PREHEAT_SERVER_LOG_H_
#define PREHEAT_SERVER_LOG_H_

#include <spdlog/spdlog.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <variant>

#include "absl/strings/string_view.h"

namespace preheat::server {

// The log goes to stderr, a line an event. As text for people, or as JSON for machines: every line is one object with
// "time" (UTC), "level" and "message", and what else is known of the event. spdlog::info and its like work as ever.

// `format`: "text", "json", or "auto": text on a terminal, JSON otherwise. `level` is spdlog's name of it.
void SetUpLog(const std::string& level, const std::string& format);

struct LogField {
  const char* name;
  std::variant<std::string, int64_t, double> value;
};

// `message` says what happened ("request", "compile failed"); the fields say to whom. Text values may be anybody's.
void LogEvent(spdlog::level::level_enum level, absl::string_view message, std::initializer_list<LogField> fields);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_LOG_H_
