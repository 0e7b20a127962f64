#include "client/compilectl/http_get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace preheat::cli {
namespace {

class Socket {
 public:
  Socket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace

int HttpGetStatus(int port, const std::string& path, absl::Duration patience) {
  const Socket socket;
  const timeval limit = absl::ToTimeval(patience);
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return 0;
  const std::string request = absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
  if (::send(socket.fd(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    return 0;
  // "HTTP/1.1 200": twelve bytes that say it all.
  char head[13] = {};
  size_t have = 0;
  while (have < 12) {
    const ssize_t got = ::recv(socket.fd(), head + have, 12 - have, 0);
    if (got <= 0) return 0;
    have += static_cast<size_t>(got);
  }
  int status = 0;
  return std::sscanf(head, "HTTP/1.%*1d %3d", &status) == 1 ? status : 0;
}

}  // namespace preheat::cli
