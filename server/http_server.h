#ifndef PREHEAT_SERVER_HTTP_SERVER_H_
#define PREHEAT_SERVER_HTTP_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct mg_context;
struct mg_connection;

namespace preheat::server {

struct HttpReply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

// GET of a few paths, over civetweb: what metrics, probes and a browser need. Everything else is 404, other methods
// 405.
class HttpServer {
 public:
  // By path. One that ends with '/' ("/artifact/", but not "/") answers for every name right below it and is given that
  // name; others are given nothing. Called on the server's threads, several at once, until this object is gone.
  using Handler = std::function<HttpReply(const std::string& name)>;
  using Handlers = std::map<std::string, Handler>;

  // Port 0 takes a free one. UNAVAILABLE "cannot_listen".
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& host, int port, Handlers handlers);
  ~HttpServer();
  int port() const { return port_; }

 private:
  explicit HttpServer(Handlers handlers) : handlers_(std::move(handlers)) {}
  static int Handle(mg_connection* connection, void* self);
  HttpReply Answer(const std::string& path) const;

  const Handlers handlers_;
  mg_context* context_ = nullptr;
  int port_ = 0;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_HTTP_SERVER_H_
