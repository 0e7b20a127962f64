#ifndef PREHEAT_SERVER_READ_TEXT_H_
#define PREHEAT_SERVER_READ_TEXT_H_

#include <optional>
#include <string>

namespace preheat::server {

// All of a small file; nothing if it cannot be read.
std::optional<std::string> ReadText(const std::string& path);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_READ_TEXT_H_
