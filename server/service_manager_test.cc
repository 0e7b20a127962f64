#include "server/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace preheat::server {
namespace {

TEST(ServiceManager, IsToldOnItsSocket) {
  const std::string path = testing::TempDir() + "/notify-" + std::to_string(getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.c_str(), path.size());
  unlink(path.c_str());
  const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  setenv("NOTIFY_SOCKET", path.c_str(), 1);
  NotifyServiceManager("READY=1");
  char buffer[64];
  const ssize_t got = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
  ASSERT_GT(got, 0);
  EXPECT_EQ(std::string(buffer, static_cast<size_t>(got)), "READY=1");
  unsetenv("NOTIFY_SOCKET");
  NotifyServiceManager("STOPPING=1");  // to nobody
  EXPECT_LT(recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT), 0);
  close(fd);
  unlink(path.c_str());
}

}  // namespace
}  // namespace preheat::server
