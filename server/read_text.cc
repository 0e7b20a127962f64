#include "server/read_text.h"

#include <fstream>
#include <iterator>

namespace preheat::server {

std::optional<std::string> ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in.is_open()) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(in), {}};
  return text;
}

}  // namespace preheat::server
