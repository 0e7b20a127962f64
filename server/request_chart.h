#ifndef PREHEAT_SERVER_REQUEST_CHART_H_
#define PREHEAT_SERVER_REQUEST_CHART_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/history.h"

namespace preheat::server {

// A drawing (SVG) of the requests over time, by how they ended, and of the hit rate as a line over them. The last hour
// by minutes, or the last day by quarters of an hour once there is more than an hour to show.
std::string RequestChart(const std::vector<History::Minute>& minutes, int64_t now_unix_ms);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_REQUEST_CHART_H_
