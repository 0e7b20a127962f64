#include "client/cpp/connection.h"

#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/backoff.h"
#include "client/cpp/rpc_status.h"
#include "compiler/support/error.h"
#include "compiler/support/retry_after.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

constexpr int kMaxReplyBytes = 256 << 20;  // blobs travel inline up to 64 MiB
constexpr size_t kMaxTokenBytes = 16384;

absl::StatusOr<std::string> ReadSecret(const std::string& path, const char* what) {
  if (path.empty()) return std::string();
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || text.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "unreadable_file",
                                                          .message = absl::StrCat("cannot read the ", what, " ", path),
                                                          .where = path,
                                                          .fix = "check its name and permissions"});
  }
  return text;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const ClientOptions& options) {
  if (options.tls_ca.empty() && options.tls_cert.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions ssl;
  ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadSecret(options.tls_ca, "certificate authority"));
  ASSIGN_OR_RETURN(ssl.pem_cert_chain, ReadSecret(options.tls_cert, "certificate"));
  ASSIGN_OR_RETURN(ssl.pem_private_key, ReadSecret(options.tls_key, "private key"));
  return grpc::SslCredentials(ssl);
}

// How long to wait before the next attempt; nothing when there shall be none.
std::optional<absl::Duration> PauseAfter(const absl::Status& status, int& attempts_left, Backoff& backoff) {
  const absl::Duration own = backoff.Next();
  if (auto asked = GetRetryAfter(status)) return absl::FromChrono(*asked) + own;
  if (absl::IsUnavailable(status) && --attempts_left > 0) return own;
  return std::nullopt;
}

}  // namespace

std::string Connection::NewRequestId() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return absl::StrFormat("%016x", random());
}

Connection::Connection(const ClientOptions& options, Socket socket) : options_(options) {
  auto credentials = Credentials(options);
  broken_ = credentials.status();
  if (!broken_.ok()) credentials = grpc::InsecureChannelCredentials();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReplyBytes);
  arguments.SetMaxSendMessageSize(-1);
  // gRPC waits a second before it dials again, and fails every call meanwhile: longer than our own patience.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (socket == Socket::kOwn) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  auto channel = grpc::CreateCustomChannel(options.server, *credentials, arguments);
  compiler_ = v1::Compiler::NewStub(channel);
  cache_ = v1::Cache::NewStub(channel);
  pool_ = v1::Pool::NewStub(channel);
}

absl::Status Connection::ToStatus(const grpc::Status& status) const { return FromGrpc(status, options_.server); }

absl::Status Connection::Prepare(grpc::ClientContext& context, absl::Time deadline,
                                 const std::string& request_id) const {
  RETURN_IF_ERROR(broken_);
  context.set_deadline(absl::ToChronoTime(deadline));
  context.AddMetadata("x-preheat-request-id", request_id);
  ASSIGN_OR_RETURN(std::string token, ReadSecret(options_.token_file, "token file"));
  absl::StripAsciiWhitespace(&token);
  if (token.size() > kMaxTokenBytes) {
    return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "unreadable_file",
                                                          .message = "the token file holds no token: it is too long",
                                                          .where = options_.token_file,
                                                          .fix = ""});
  }
  if (!token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  return absl::OkStatus();
}

absl::Status Connection::Call(const std::function<absl::Status(grpc::ClientContext&)>& attempt) {
  const absl::Time deadline = absl::Now() + options_.deadline;
  const std::string request_id = NewRequestId();
  Backoff backoff(std::random_device{}());
  int attempts_left = options_.attempts;
  while (true) {
    grpc::ClientContext context;
    RETURN_IF_ERROR(Prepare(context, deadline, request_id));
    absl::Status status = attempt(context);
    if (status.ok()) return status;
    const std::optional<absl::Duration> pause = PauseAfter(status, attempts_left, backoff);
    if (!pause || absl::Now() + *pause >= deadline)
      return GetError(status).kind == "unreachable" ? status : WithRequestId(std::move(status), request_id);
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(*pause));
  }
}

}  // namespace preheat
