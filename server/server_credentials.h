#ifndef PREHEAT_SERVER_SERVER_CREDENTIALS_H_
#define PREHEAT_SERVER_SERVER_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/config.h"

namespace preheat::server {

// TLS when a certificate is configured, with certificates of clients if an authority for them is; otherwise none.
// INVALID_ARGUMENT "unreadable_file".
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsOf(const Config& config);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_SERVER_CREDENTIALS_H_
