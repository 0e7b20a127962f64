#ifndef PREHEAT_SERVER_STATUS_PAGE_H_
#define PREHEAT_SERVER_STATUS_PAGE_H_

#include <string>
#include <vector>

#include "proto/preheat/v1/compile.pb.h"
#include "proto/preheat/v1/pool.pb.h"
#include "server/metrics.h"

namespace preheat::server {

// The page at /: what the server is doing, for a person with a browser. Plain HTML, nothing loaded from elsewhere.
std::string StatusPage(const v1::StatsReply& stats, const Gauges& gauges, const std::vector<v1::WorkerInfo>& workers);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_STATUS_PAGE_H_
