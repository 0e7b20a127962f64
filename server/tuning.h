#ifndef PREHEAT_SERVER_TUNING_H_
#define PREHEAT_SERVER_TUNING_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "server/flight.h"
#include "server/services.h"

namespace preheat::server {

// The flight that makes a tuned generation of this artifact, begun if nobody else has; leave it (services.inflight)
// once it is over or nobody waits. It goes on all the same. Null, and nothing begins, for a key of which it is known
// that it cannot be tuned. `after`: how long other work has precedence at least; null: somebody waits for it.
//
// A worker measures when no request waits for it; a request that comes interrupts it, or has it stand still where it
// finds another worker. What nobody waits for is tuned one after another on a machine. The flight ends with COMPILED
// once the generation is published, or with FAILED_PRECONDITION "not_tuned" and the reason.
std::shared_ptr<Flight> JoinTuning(Services& services, const v1::Manifest& manifest, const v1::CompileRequest& request,
                                   std::optional<std::chrono::milliseconds> after);

// Whether there is no tuned generation to wait for.
bool CannotBeTuned(Services& services, const std::string& key);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_TUNING_H_
