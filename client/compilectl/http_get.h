#ifndef PREHEAT_CLIENT_COMPILECTL_HTTP_GET_H_
#define PREHEAT_CLIENT_COMPILECTL_HTTP_GET_H_

#include <string>

#include "absl/time/time.h"

namespace preheat::cli {

// The status of GET http://127.0.0.1:port/path; 0 when nobody answers within `patience`. For readiness probes of a
// local server: no body, no redirects, no TLS.
int HttpGetStatus(int port, const std::string& path, absl::Duration patience);

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_HTTP_GET_H_
