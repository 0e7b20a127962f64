#ifndef PREHEAT_SERVER_COMPILE_FLIGHT_H_
#define PREHEAT_SERVER_COMPILE_FLIGHT_H_

#include <memory>
#include <string>
#include <vector>

#include "server/services.h"

namespace preheat::server {

// The part of a compile that belongs to no single request: one task on a worker, from the key that it finds to the
// published artifact. Ends by finishing `flight`, whatever happens; ends early when nobody waits any more.
// `held` is let go of before the flight is finished. `look_only`: find the key and what is stored for it, compile
// nothing.
void StartCompile(Services& services, const std::shared_ptr<Flight>& flight, v1::CompileRequest request,
                  std::vector<std::shared_ptr<void>> held, const std::string& alias, const std::string& target,
                  bool look_only);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_COMPILE_FLIGHT_H_
