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
          {"corrupt", reply.corrupt()}};
}

std::string StatsText(const v1::StatsReply& reply) {
  std::string text = "requests:";
  for (const char* result : kResults) absl::StrAppend(&text, " ", Count(reply, result), " ", result);
  absl::StrAppend(&text, "\nhit rate: ", Total(reply) == 0 ? "-" : absl::StrFormat("%.1f %%", 100 * reply.hit_rate()),
                  "; seconds saved: ", HumanSeconds(reply.seconds_saved()), "\ncache: ", reply.entries(), " entries, ",
                  HumanBytes(reply.bytes()), "; evicted ", HumanBytes(reply.evicted_bytes()), "; corrupt ",
                  reply.corrupt(), "\n");
  return text;
}

Json WorkersObject(const v1::ListWorkersReply& reply) {
  Json workers = Json::array();
  for (const v1::WorkerInfo& worker : reply.workers()) {
    workers.push_back({{"id", worker.id()},
                       {"device", worker.device()},
                       {"target", worker.target()},
                       {"state", worker.state()},
                       {"tasks", worker.tasks()},
                       {"crashes", worker.crashes()}});
  }
  return {{"workers", workers}};
}

std::string WorkersText(const v1::ListWorkersReply& reply) {
  Table table({{.header = "id", .shrinks = true},
               {.header = "device"},
               {.header = "target", .shrinks = true},
               {.header = "state"},
               {.header = "tasks", .right = true},
               {.header = "crashes", .right = true}});
  for (const v1::WorkerInfo& worker : reply.workers()) {
    table.Add({worker.id(), worker.device(), worker.target(), worker.state(), absl::StrCat(worker.tasks()),
               absl::StrCat(worker.crashes())});
  }
  return table.empty() ? "no workers\n" : table.Render();
}

}  // namespace preheat::cli
