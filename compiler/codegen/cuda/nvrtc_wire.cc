#include "compiler/codegen/cuda/nvrtc_wire.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace preheat::codegen {
namespace {

constexpr uint64_t kMostBytes = uint64_t{256} << 20;

bool SendAll(int socket, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(socket, data, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int socket, char* data, size_t size) {
  while (size > 0) {
    const ssize_t got = recv(socket, data, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

bool SendFrame(int socket, absl::string_view bytes) {
  const uint64_t size = bytes.size();
  char header[sizeof(size)];
  std::memcpy(header, &size, sizeof(size));
  return SendAll(socket, header, sizeof(header)) && SendAll(socket, bytes.data(), bytes.size());
}

std::optional<std::string> ReceiveFrame(int socket) {
  uint64_t size = 0;
  char header[sizeof(size)];
  if (!ReceiveAll(socket, header, sizeof(header))) return std::nullopt;
  std::memcpy(&size, header, sizeof(size));
  if (size > kMostBytes) return std::nullopt;
  std::string bytes(size, 0);
  if (!ReceiveAll(socket, bytes.data(), size)) return std::nullopt;
  return bytes;
}

}  // namespace preheat::codegen
