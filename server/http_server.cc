#include "server/http_server.h"

#include <civetweb.h>

#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"

namespace preheat::server {
namespace {

// Pages show what clients sent. It is escaped; should that ever fail, browsers still run no script of it.
constexpr char kSafety[] =
    "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n";

void Send(mg_connection* connection, const HttpReply& reply, bool body) {
  const char* reason = mg_get_response_code_text(connection, reply.status);
  mg_printf(connection, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n",
            reply.status, reason, reply.type.c_str(), reply.body.size(), kSafety);
  if (body) mg_write(connection, reply.body.data(), reply.body.size());
}

}  // namespace

HttpReply HttpServer::Answer(const std::string& path) const {
  if (auto found = handlers_.find(path); found != handlers_.end() && (path == "/" || path.back() != '/'))
    return found->second("");
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0 && slash + 1 < path.size()) {
    if (auto found = handlers_.find(path.substr(0, slash + 1)); found != handlers_.end())
      return found->second(path.substr(slash + 1));
  }
  return {404, "text/plain; charset=utf-8", "not here\n"};
}

int HttpServer::Handle(mg_connection* connection, void* self) {
  const mg_request_info* request = mg_get_request_info(connection);
  const bool head = std::strcmp(request->request_method, "HEAD") == 0;
  HttpReply reply = {405, "text/plain; charset=utf-8", "only GET\n"};
  if (head || std::strcmp(request->request_method, "GET") == 0)
    reply = static_cast<HttpServer*>(self)->Answer(request->local_uri == nullptr ? "" : request->local_uri);
  Send(connection, reply, !head);
  return reply.status;
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& host, int port, Handlers handlers) {
  static std::once_flag once;
  std::call_once(once, [] { mg_init_library(0); });
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(handlers)));
  std::string address = absl::StrCat(host, ":", port);
  const char* options[] = {"listening_ports",
                           address.c_str(),
                           "num_threads",
                           "4",
                           "request_timeout_ms",
                           "10000",
                           "enable_directory_listing",
                           "no",
                           nullptr};
  mg_callbacks callbacks;
  std::memset(&callbacks, 0, sizeof(callbacks));
  server->context_ = mg_start(&callbacks, nullptr, options);
  mg_server_port listening;
  if (server->context_ == nullptr || mg_get_server_ports(server->context_, 1, &listening) < 1) {
    return MakeError(absl::StatusCode::kUnavailable,
                     {.kind = "cannot_listen",
                      .message = absl::StrCat("cannot listen for HTTP on ", address),
                      .where = address,
                      .fix = "another program has the port: give another --http-port, or 0 for a free one"});
  }
  server->port_ = listening.port;
  mg_set_request_handler(server->context_, "/", &HttpServer::Handle, server.get());
  return server;
}

HttpServer::~HttpServer() {
  if (context_ != nullptr) mg_stop(context_);
}

}  // namespace preheat::server
