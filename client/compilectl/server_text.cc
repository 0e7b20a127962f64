#include "client/compilectl/server_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/compilectl/report.h"
#include "client/compilectl/table.h"

namespace preheat::cli {
namespace {

constexpr const char* kResults[] = {"hit", "compiled", "coalesced", "negative", "refused", "failed"};

int64_t Count(const v1::StatsReply& reply, const char* result) {
  const auto it = reply.requests().find(result);
  return it == reply.requests().end() ? 0 : it->second;
}

int64_t Total(const v1::StatsReply& reply) {
  int64_t total = 0;
  for (const char* result : kResults) total += Count(reply, result);
  return total;
}

}  // namespace

Json StatsObject(const v1::StatsReply& reply) {
  Json requests = Json::object();
  for (const char* result : kResults) requests[result] = Count(reply, result);
  return {{"requests", requests},
          {"hit_rate", Total(reply) == 0 ? Json(nullptr) : Number(reply.hit_rate())},
          {"seconds_saved", Number(reply.seconds_saved())},
          {"entries", reply.entries()},
          {"bytes", reply.bytes()},
          {"evicted_bytes", reply.evicted_bytes()},
          {"corrupt", reply.corrupt()},
          {"inflight", reply.inflight()},
          {"queue_depth", reply.queue_depth()},
          {"uptime_seconds", Number(reply.uptime_seconds())}};
}

std::string StatsText(const v1::StatsReply& reply) {
  const auto count = [&](const char* result) { return absl::StrCat(Count(reply, result), " ", result); };
  return absl::StrCat("requests       ", count("hit"), ", ", count("compiled"), ", ", count("coalesced"),
                      "\n               ", count("negative"), ", ", count("refused"), ", ", count("failed"),
                      "\nhit rate       ", Total(reply) == 0 ? "-" : absl::StrFormat("%.1f %%", 100 * reply.hit_rate()),
                      "\nseconds saved  ", HumanSeconds(reply.seconds_saved()), "\ncache          ", reply.entries(),
                      " entries, ", HumanBytes(reply.bytes()), "\nevicted        ", HumanBytes(reply.evicted_bytes()),
                      "\ncorrupt blobs  ", reply.corrupt(), "\nin flight      ", reply.inflight(), " requests, ",
                      reply.queue_depth(), " tasks waiting\nup             ", HumanSeconds(reply.uptime_seconds()),
                      "\n");
}

Json WorkersObject(const v1::ListWorkersReply& reply) {
  Json workers = Json::array();
  for (const v1::WorkerInfo& worker : reply.workers()) {
    workers.push_back({{"id", worker.id()},
                       {"device", worker.device()},
                       {"target", worker.target()},
                       {"state", worker.state()},
                       {"tasks", worker.tasks()},
                       {"crashes", worker.crashes()},
                       {"task", worker.task().empty() ? Json(nullptr) : Json(worker.task())},
                       {"task_seconds", worker.task().empty() ? Json(nullptr) : Number(worker.task_seconds())},
                       {"resident_bytes", worker.resident_bytes()}});
  }
  return {{"workers", workers}};
}

std::string WorkersText(const v1::ListWorkersReply& reply) {
  Table table({{.header = "id", .shrinks = true},
               {.header = "device"},
               {.header = "target", .shrinks = true},
               {.header = "state"},
               {.header = "tasks", .right = true},
               {.header = "crashes", .right = true},
               {.header = "memory", .right = true, .optional = true},
               {.header = "now", .shrinks = true}});
  for (const v1::WorkerInfo& worker : reply.workers()) {
    const std::string now =
        worker.task().empty() ? "-" : absl::StrCat(worker.task(), ", ", HumanSeconds(worker.task_seconds()));
    table.Add({worker.id(), worker.device(), worker.target(), worker.state(), absl::StrCat(worker.tasks()),
               absl::StrCat(worker.crashes()), HumanBytes(worker.resident_bytes()), now});
  }
  return table.empty() ? "no workers\n" : table.Render();
}

}  // namespace preheat::cli
