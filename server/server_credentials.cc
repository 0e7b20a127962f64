#include "server/server_credentials.h"

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::server {
namespace {

absl::StatusOr<std::string> ReadPem(const std::string& path, const char* what) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.is_open() && !text.empty()) return text;
  return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "unreadable_file",
                                                        .message = absl::StrCat("cannot read the ", what, " ", path),
                                                        .where = path,
                                                        .fix = "check its name and permissions"});
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsOf(const Config& config) {
  if (config.tls_cert.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(config.tls_client_ca.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  ASSIGN_OR_RETURN(pair.cert_chain, ReadPem(config.tls_cert, "certificate"));
  ASSIGN_OR_RETURN(pair.private_key, ReadPem(config.tls_key, "key"));
  options.pem_key_cert_pairs.push_back(std::move(pair));
  if (!config.tls_client_ca.empty()) {
    ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem(config.tls_client_ca, "authority of clients"));
  }
  return grpc::SslServerCredentials(options);
}

}  // namespace preheat::server
