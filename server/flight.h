#ifndef PREHEAT_SERVER_FLIGHT_H_
#define PREHEAT_SERVER_FLIGHT_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat::server {

// What everybody who waited is told.
struct Outcome {
  std::string key;
  // HIT: was there when the key became known. COMPILED: made here. COALESCED: made by another flight for the same
  // key. MISSING: not there, and this flight was only to look. SOURCE_NEEDED: nobody has brought what to compile.
  v1::Result result = v1::RESULT_UNSPECIFIED;
  // Without the names that a program's own debug information holds: each request adds its own.
  google::protobuf::RepeatedPtrField<v1::InputInfo> inputs;
  google::protobuf::RepeatedPtrField<v1::OutputInfo> outputs;
  std::map<std::string, std::string> key_fields;
};

// One piece of work that any number of requests wait for. Safe from several threads at once.
class Flight {
 public:
  using ProgressFn = std::function<void(const v1::Progress&)>;
  using EndFn = std::function<void(const absl::StatusOr<Outcome>&)>;

  explicit Flight(std::string alias) : alias_(std::move(alias)) {}
  const std::string& alias() const { return alias_; }

  // Blocks until Finish. `progress` is told the latest state whenever it changed, and every few seconds even if it did
  // not (on the calling thread); `cancelled` is asked several times a second: once true, CANCELLED is returned and the
  // flight goes on.
  absl::StatusOr<Outcome> Wait(const ProgressFn& progress, const std::function<bool()>& cancelled);

  // The maker's side.
  void Tell(const v1::Progress& progress);
  void Finish(absl::StatusOr<Outcome> outcome);  // the first call counts

  // Tells followers the latest state again if it is some seconds old: clients take a longer silence for a server that
  // hangs. Called about once a second.
  void Beat();

  // Also told, without a thread that waits: on the maker's thread, or now, when it is over. Returns a number for
  // Unfollow.
  int64_t Follow(ProgressFn progress, EndFn end);
  // No longer told, though a call that is under way may still come.
  void Unfollow(int64_t follower);

 private:
  using Follower = std::pair<ProgressFn, EndFn>;

  const std::string alias_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  v1::Progress progress_;
  int version_ = 0;  // of progress_
  std::chrono::steady_clock::time_point told_;
  std::optional<absl::StatusOr<Outcome>> outcome_;
  std::map<int64_t, Follower> followers_;
  int64_t next_follower_ = 0;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_FLIGHT_H_
