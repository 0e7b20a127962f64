#include "client/compilectl/command.h"

#include "absl/time/time.h"

namespace preheat::cli {

Context::Context(const Globals& globals) : globals_(globals), progress_(globals.quiet) {}

Client& Context::client() {
  if (!client_) {
    ClientOptions options = globals_.client;
    options.deadline = absl::Seconds(globals_.timeout_seconds);
    // People and scripts ask what the server says: no answer from the local cache in its name.
    options.offline = false;
    client_.emplace(std::move(options));
  }
  return *client_;
}

int ExitStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return 0;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange: return 2;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded: return 3;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kResourceExhausted: return 4;
    default: return 1;
  }
}

}  // namespace preheat::cli
