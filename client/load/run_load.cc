#include "client/load/run_load.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/compilectl/model.h"
#include "client/cpp/ask_by_digest.h"
#include "client/load/load_client.h"
#include "client/load/made_programs.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "proto/source_digest.h"

namespace preheat::load {
namespace {

using QuestionPtr = std::shared_ptr<const LoadClient::Question>;

constexpr int kWarmingThreads = 8;
constexpr absl::Duration kRestPoll = absl::Milliseconds(200);
constexpr absl::Duration kLongestRest = absl::Minutes(2);
constexpr int kMostKeys = 1 << 20;
constexpr int kMostClients = 10000;

absl::Status Invalid(std::string message, std::string flag, std::string fix) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "usage", .message = std::move(message), .where = std::move(flag), .fix = std::move(fix)});
}

absl::Status Check(const LoadOptions& options) {
  if (options.clients < 1 || options.clients > kMostClients)
    return Invalid("so many clients are not possible", "--clients", absl::StrCat("give 1 to ", kMostClients));
  if (!(options.seconds > 0 && options.seconds <= 86400))
    return Invalid("so many seconds are not possible", "--seconds", "give more than 0 and at most 86400");
  if (options.keys < 1 || options.keys > kMostKeys)
    return Invalid("so many keys are not possible", "--keys", absl::StrCat("give 1 to ", kMostKeys));
  if (!(options.miss_share >= 0 && options.miss_share <= 1))
    return Invalid("a share lies between 0 and 1", "--miss-share", "give 0.01 for one request in a hundred");
  return absl::OkStatus();
}

v1::Source SourceOf(v1::Program program) {
  v1::Source source;
  *source.mutable_program() = std::move(program);
  return source;
}

// What is asked, made and hashed once: a client that read a model anew for each request would be what is measured.
class Requests {
 public:
  Requests(const LoadOptions& options, const Client& client) : options_(options), client_(client) {}

  absl::Status Prepare() {
    if (options_.program.empty()) {
      for (int i = 0; i < options_.keys; ++i) {
        known_.push_back(
            Make(SourceOf(MakeProgram(options_.seed, static_cast<uint32_t>(i))), absl::StrCat("load-", i)));
      }
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(std::vector<cli::ModelProgram> programs, cli::LoadModel(options_.program));
    for (const cli::ModelProgram& program : programs) known_.push_back(Make(program.source, program.name));
    return absl::OkStatus();
  }

  const std::vector<QuestionPtr>& known() const { return known_; }

  // Client number `client` goes round the known programs, each from another place, and now and then asks for a new one.
  std::function<QuestionPtr()> For(int client) {
    auto turn = std::make_shared<size_t>(static_cast<size_t>(client));
    auto random = std::make_shared<std::mt19937_64>(options_.seed * kMostClients + static_cast<uint64_t>(client));
    return [this, turn, random] {
      if (std::uniform_real_distribution<double>()(*random) < options_.miss_share) return New();
      return known_[(*turn)++ % known_.size()];
    };
  }

 private:
  QuestionPtr Make(const v1::Source& source, const std::string& name) const {
    RequestOptions options;
    options.name = name;
    options.mode = v1::FAST;
    options.extern_allowed = true;
    auto made = std::make_shared<LoadClient::Question>();
    made->whole = client_.MakeRequest(source, options);
    made->whole.set_inline_blobs(options_.fetch_all);
    made->large = IsLarge(source);
    if (made->large) made->by_digest = ByDigest(made->whole, SourceDigest(*made->whole.mutable_source()));
    return made;
  }
  // Of a seed that no run has had before.
  QuestionPtr New() {
    const uint32_t index = misses_++;
    return Make(SourceOf(MakeProgram(fresh_seed_, index % kMostKeys)), "load-miss");
  }

  const LoadOptions& options_;
  const Client& client_;
  const uint64_t fresh_seed_ = (uint64_t{std::random_device{}()} << 28 ^ std::random_device{}()) | uint64_t{1} << 59;
  std::atomic<uint32_t> misses_{0};
  std::vector<QuestionPtr> known_;
};

// Returns how many had to be compiled.
absl::StatusOr<int64_t> Warm(Client& client, const std::vector<QuestionPtr>& questions) {
  std::atomic<size_t> next{0};
  std::atomic<int64_t> compiled{0};
  std::mutex mutex;
  absl::Status failed;  // guarded by mutex: the first
  const auto work = [&] {
    for (size_t i = next++; i < questions.size(); i = next++) {
      const v1::CompileRequest& asked = questions[i]->whole;
      RequestOptions options;
      options.name = asked.name();
      options.mode = v1::FAST;
      options.extern_allowed = true;
      auto result = client.Request(asked.source(), options);
      if (result.ok() && result->result() == v1::COMPILED) ++compiled;
      if (result.ok()) continue;
      std::lock_guard lock(mutex);
      failed.Update(result.status());
      next = questions.size();
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min<size_t>(kWarmingThreads, questions.size()); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  RETURN_IF_ERROR(failed);
  return compiled.load();
}

// What was just compiled is verified in the background, which would be measured too. Who tunes gives way to work, and
// may go on for minutes.
absl::Status WaitUntilWorkersRest(Client& client) {
  const absl::Time until = absl::Now() + kLongestRest;
  for (int quiet = 0; quiet < 3 && absl::Now() < until;) {
    ASSIGN_OR_RETURN(v1::ListWorkersReply reply, client.ListWorkers());
    const bool busy = std::any_of(reply.workers().begin(), reply.workers().end(), [](const v1::WorkerInfo& worker) {
      return worker.state() == "busy" && !absl::StartsWith(worker.task(), "tune ");
    });
    quiet = busy ? 0 : quiet + 1;
    absl::SleepFor(kRestPoll);
  }
  return absl::OkStatus();
}

Tally RunClients(const LoadOptions& options, Requests& requests) {
  std::vector<std::unique_ptr<LoadClient>> clients;
  for (int i = 0; i < options.clients; ++i) {
    clients.push_back(std::make_unique<LoadClient>(
        LoadClient::Options{.client = options.client, .fetch_all = options.fetch_all, .next = requests.For(i)}));
  }
  const absl::Time end = absl::Now() + absl::Seconds(options.seconds);
  for (auto& client : clients) client->Start(end);
  Tally tally;
  for (auto& client : clients) {
    client->Wait();
    tally.Merge(client->tally());
  }
  std::sort(tally.hit_ms.begin(), tally.hit_ms.end());
  return tally;
}

}  // namespace

absl::StatusOr<LoadReport> RunLoad(const LoadOptions& asked, const SayFn& say) {
  RETURN_IF_ERROR(Check(asked));
  LoadOptions options = asked;
  options.client.offline = false;  // what a local cache says is nothing of the server's
  Client client(options.client);
  options.client = client.options();  // with the environment's
  Requests requests(options, client);
  RETURN_IF_ERROR(requests.Prepare());

  LoadReport report;
  report.programs = static_cast<int64_t>(requests.known().size());
  say(absl::StrCat("compiling ", report.programs, " programs, those that nobody has"));
  ASSIGN_OR_RETURN(report.warmed, Warm(client, requests.known()));
  say("waiting until the workers rest");
  RETURN_IF_ERROR(WaitUntilWorkersRest(client));
  say(absl::StrCat(options.clients, " clients ask for ", options.seconds, " s"));
  report.tally = RunClients(options, requests);
  report.seconds = options.seconds;
  return report;
}

}  // namespace preheat::load
