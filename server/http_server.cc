#include "server/http_server.h"

#include <civetweb.h>

#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"

namespace preheat::server {
namespace {

void Send(mg_connection* connection, const HttpReply& reply, bool body) {
  const char* reason = mg_get_response_code_text(connection, reply.status);
  mg_printf(connection, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
            reply.status, reason, reply.type.c_str(), reply.body.size());
  if (body) mg_write(connection, reply.body.data(), reply.body.size());
}

}  // namespace

int HttpServer::Handle(mg_connection* connection, void* self) {
  const mg_request_info* request = mg_get_request_info(connection);
  const Handlers& handlers = static_cast<HttpServer*>(self)->handlers_;
  bool head = std::strcmp(request->request_method, "HEAD") == 0;
  HttpReply reply;
  auto handler = handlers.find(request->local_uri);
  if (!head && std::strcmp(request->request_method, "GET") != 0) {
    reply = {405, "text/plain; charset=utf-8", "only GET\n"};
  } else if (handler == handlers.end()) {
    reply = {404, "text/plain; charset=utf-8", "not here\n"};
  } else {
    reply = handler->second();
  }
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
