#ifndef PREHEAT_CLIENT_LOAD_LOAD_CLIENT_H_
#define PREHEAT_CLIENT_LOAD_LOAD_CLIENT_H_

#include <grpcpp/alarm.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>

#include "absl/time/time.h"
#include "client/cpp/backoff.h"
#include "client/cpp/connection.h"
#include "client/load/tally.h"

namespace preheat::load {

// One of many clients: asks, takes what comes, and asks again at once, over a connection of its own. It keeps nothing
// between requests, so that each is that of a fresh process. Driven by gRPC's threads; costs none of its own.
class LoadClient {
 public:
  // One question, as our clients ask it (client/cpp/ask_by_digest.h).
  struct Question {
    v1::CompileRequest whole;
    v1::CompileRequest by_digest;  // of a large program
    bool large = false;
  };
  struct Options {
    ClientOptions client;
    bool fetch_all = true;  // every blob that the manifest names, held against its digest; else none
    // The next one to ask. Called by one thread at a time.
    std::function<std::shared_ptr<const Question>()> next;
  };
  explicit LoadClient(Options options);
  ~LoadClient();

  // From now on it asks, and counts what is done before `end`. What runs then is waited for by Wait.
  void Start(absl::Time end);
  void Wait();

  // REQUIRES: Wait has returned.
  const Tally& tally() const { return tally_; }

 private:
  class Compile;
  class Blob;
  struct Round;

  void AskOrEnd();
  void Ask(std::shared_ptr<Round> round);
  void Answered(std::shared_ptr<Round> round, const absl::Status& status);
  void Fetch(const std::shared_ptr<Round>& round);
  void Fetched(const std::shared_ptr<Round>& round);
  void Finish(const Round& round);
  void Pause(const absl::Status& status);

  const Options options_;
  Connection connection_;
  absl::Time end_;
  // Of whichever thread finishes the round; rounds follow each other.
  Tally tally_;
  Backoff backoff_{std::random_device{}()};
  std::unique_ptr<grpc::Alarm> pause_;

  std::mutex mutex_;
  std::condition_variable ended_;
  bool running_ = false;  // guarded by mutex_
};

}  // namespace preheat::load

#endif  // PREHEAT_CLIENT_LOAD_LOAD_CLIENT_H_
