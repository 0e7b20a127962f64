#ifndef PREHEAT_SERVER_SERVICE_MANAGER_H_
#define PREHEAT_SERVER_SERVICE_MANAGER_H_

#include "absl/strings/string_view.h"

namespace preheat::server {

// Tells systemd (a unit of Type=notify) how we are: "READY=1", "STOPPING=1". Does nothing where nobody asked, that is
// without NOTIFY_SOCKET.
void NotifyServiceManager(absl::string_view state);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_SERVICE_MANAGER_H_
