#ifndef PREHEAT_CLIENT_COMPILECTL_SERVER_TEXT_H_
#define PREHEAT_CLIENT_COMPILECTL_SERVER_TEXT_H_

#include <string>

#include "client/compilectl/command.h"
#include "proto/preheat/v1/compile.pb.h"
#include "proto/preheat/v1/pool.pb.h"

namespace preheat::cli {

// What `stats`, `workers` and `top` say of a server.
Json StatsObject(const v1::StatsReply& reply);
std::string StatsText(const v1::StatsReply& reply);
Json WorkersObject(const v1::ListWorkersReply& reply);
std::string WorkersText(const v1::ListWorkersReply& reply);

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_SERVER_TEXT_H_
