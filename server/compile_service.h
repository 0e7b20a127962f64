#ifndef PREHEAT_SERVER_COMPILE_SERVICE_H_
#define PREHEAT_SERVER_COMPILE_SERVICE_H_

#include "server/rpc_router.h"
#include "server/services.h"

namespace preheat::server {

// Teaches the router the methods of preheat.v1.Compiler. Both must outlive the router's calls. Logs repeat the request
// id of the metadata "x-preheat-request-id".
void AddCompilerMethods(RpcRouter& router, Services& services);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_COMPILE_SERVICE_H_
