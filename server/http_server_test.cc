#include "server/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "compiler/support/error.h"

namespace preheat::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Ask(int port, const std::string& line) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  std::string request = line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) reply.append(buffer, n);
  close(fd);
  return reply;
}

TEST(HttpServer, AnswersItsPathsAndNoOthers) {
  auto server = HttpServer::Start("127.0.0.1", 0,
                                  {{"/metrics",
                                    [](const std::string&) {
                                      return HttpReply{200, "text/plain", "one 1\n"};
                                    }},
                                   {"/artifact/",
                                    [](const std::string& name) {
                                      return HttpReply{200, "text/plain", "key " + name};
                                    }},
                                   {"/readyz", [](const std::string&) {
                                      return HttpReply{503, "text/plain", "no worker\n"};
                                    }}});
  ASSERT_TRUE(server.ok()) << server.status();
  int port = (*server)->port();
  EXPECT_GT(port, 0);
  EXPECT_THAT(Ask(port, "GET /metrics"), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(Ask(port, "GET /metrics?x=1"), EndsWith("\r\n\r\none 1\n"));
  EXPECT_THAT(Ask(port, "HEAD /metrics"), EndsWith("\r\n\r\n"));
  EXPECT_THAT(Ask(port, "GET /readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Ask(port, "GET /artifact/abc"), EndsWith("\r\n\r\nkey abc"));
  EXPECT_THAT(Ask(port, "GET /artifact/"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Ask(port, "GET /artifact/a/b"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Ask(port, "GET /"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Ask(port, "GET /metrics"), HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(Ask(port, "GET /etc/passwd"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Ask(port, "GET /../etc/passwd"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Ask(port, "DELETE /metrics"), StartsWith("HTTP/1.1 405"));
}

TEST(HttpServer, NamesAPortThatIsTaken) {
  auto first = HttpServer::Start("127.0.0.1", 0, {});
  ASSERT_TRUE(first.ok());
  auto second = HttpServer::Start("127.0.0.1", (*first)->port(), {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(GetError(second.status()).kind, "cannot_listen");
}

}  // namespace
}  // namespace preheat::server
