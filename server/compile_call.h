#ifndef PREHEAT_SERVER_COMPILE_CALL_H_
#define PREHEAT_SERVER_COMPILE_CALL_H_

#include <memory>
#include <string>

#include "server/rpc_router.h"
#include "server/services.h"

namespace preheat::server {

class CompileRequest;

// Serves one Compile call without a thread that waits: a hit is answered on the calling thread, anything else when its
// flight is over. Ends with an event `done` or `error`, and in the second case with that error as the call's status.
void ServeCompile(Services& services, RpcRouter& router, std::shared_ptr<Call> call, v1::CompileRequest request);

// Counts and logs how a request ended, under the client's id for it.
void RecordRequest(Services& services, const std::string& request_id, const CompileRequest& story,
                   const absl::StatusOr<v1::CompileResult>& result);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_COMPILE_CALL_H_
