#ifndef PREHEAT_SERVER_POOL_H_
#define PREHEAT_SERVER_POOL_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/preheat/v1/pool.pb.h"

namespace preheat::server {

using SteadyTime = std::chrono::steady_clock::time_point;

// The way to one worker. Neither call blocks or calls back into the pool.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  virtual void Send(v1::ServerMessage message) = 0;
  // Ends the worker: a local one is killed, a remote one loses its stream. Its Disconnect follows.
  virtual void Kill() = 0;
};

// Work for one worker. Callbacks come from the pool's threads, one at a time for one task, never with a lock held.
struct PoolTask {
  enum class Priority { kRequest, kBackground };  // background waits while there is any request

  v1::Task message;     // id and deadline are filled in by the pool
  std::string target;   // what the worker must be able to compile for
  bool to_run = false;  // on the target's own device, where a worker has one
  Priority priority = Priority::kRequest;
  SteadyTime not_before;  // it stays in the queue until then
  // In the background: how often requests may take its worker from it, and how long it then stays in the queue.
  int most_interruptions = 5;
  bool alone = false;  // nobody waits for it, and it measures: one such task at a time on a machine or a GPU
  std::chrono::milliseconds pause = {};
  std::function<bool(const v1::KeyKnown&)>
      on_key;  // whether to go on; asked again if the worker is lost and another tries
  std::function<void(const v1::Progress&)> on_progress;
  std::function<void(absl::StatusOr<v1::TaskDone>)> on_end;  // exactly once
};

struct PoolOptions {
  size_t max_queue = 1000;  // requests that may wait; background tasks, when these and requests are fewer
  std::chrono::milliseconds task_deadline = std::chrono::minutes(30);
  std::chrono::milliseconds heartbeat_timeout = std::chrono::seconds(30);
  std::chrono::milliseconds worker_timeout =
      std::chrono::minutes(5);  // how long a task waits while there is no worker at all
  std::chrono::milliseconds cancel_patience =
      std::chrono::seconds(10);    // how long a worker may go on with a task that nobody wants
  int64_t max_resident_bytes = 0;  // of a worker with its children; 0: no limit
};

// Workers and the tasks for them: a queue, who does what, and what happens when one of them is lost. No RPC in here
// (pool_service) and no processes (worker_processes). Safe from several threads at once.
//
// A task whose worker is lost goes to another; one that has lost two is refused with "task_killed_workers". One that
// tunes gives its worker to a request that finds no other, and begins anew later; after a few times it is let be.
class Pool {
 public:
  explicit Pool(PoolOptions options);
  ~Pool();

  // Queues the task and returns its id. RESOURCE_EXHAUSTED "queue_full" with the time to wait, UNAVAILABLE "draining",
  // FAILED_PRECONDITION "no_worker_for_target" when none of the workers that are there can do it; then nothing is
  // called.
  absl::StatusOr<std::string> Submit(PoolTask task);
  // Queued tasks for which `change` returns true, having changed them, go in front of others of the background. It is
  // called with a lock held.
  void Hurry(const std::function<bool(PoolTask&)>& change);
  // Nobody wants it any more. A queued task ends now, a running one when its worker has noticed, or with its worker if
  // that does not notice for cancel_patience. Unknown ids are ignored.
  void Cancel(const std::string& id);

  // A worker came: returns the number by which it is known below. FAILED_PRECONDITION "toolchain_mismatch" when it
  // would compile otherwise than the first one, INVALID_ARGUMENT "bad_registration".
  absl::StatusOr<int> Connect(const v1::Registration& registration, std::shared_ptr<WorkerLink> link);
  void Receive(int worker, v1::WorkerMessage message);
  void Disconnect(int worker);

  // What a worker and its children hold, from whoever has looked; too much ends it.
  void NoteMemory(const std::string& worker_id, int64_t resident_bytes);

  // Looks after deadlines and heartbeats; call about once a second.
  void Tick(SteadyTime now = std::chrono::steady_clock::now());

  // No new tasks; queued background tasks end. Then WaitIdle says whether all the others ended in time.
  void Drain();
  bool WaitIdle(std::chrono::milliseconds timeout);
  // Tells workers to go and ends every task that is left with UNAVAILABLE.
  void Shutdown();

  struct Counts {  // queued: requests alone, since background tasks wait by choice
    size_t queued = 0, idle = 0, busy = 0, lost = 0;
    int64_t crashes = 0;
  };
  Counts Count();
  std::vector<v1::WorkerInfo> Workers();
  // How long requests waited in the queue since the last call.
  std::vector<double> TakeQueueSeconds();

  // The first worker's; nothing before that. A new server may be told what the last one knew.
  std::optional<v1::Toolchain> toolchain();
  void set_toolchain(v1::Toolchain toolchain);
  // What the first worker runs on: the target of a client that does not say. Empty when there is none.
  std::string default_target();

 private:
  struct Task;
  struct Worker;
  using TaskPtr = std::shared_ptr<Task>;
  using Actions = std::vector<std::function<void()>>;  // to be called once the lock is free

  // All of these REQUIRE mutex_ held.
  void Dispatch();
  void Requeue(const TaskPtr& task, const std::string& reason, Actions& actions);
  void End(const TaskPtr& task, absl::StatusOr<v1::TaskDone> result, Actions& actions);
  void Kill(Worker& worker, std::string reason);
  void CheckMemory(Worker& worker, int64_t resident_bytes);
  std::chrono::milliseconds RetryAfter() const;
  absl::Status MayQueue(const PoolTask& task) const;
  std::deque<TaskPtr>::iterator FirstBackground();
  size_t QueuedRequests() const;
  TaskPtr Release(Worker& worker, const std::string& task_id);
  void HandleDone(Worker& worker, v1::WorkerMessage message, Actions& actions);
  void HandleRunning(Worker& worker, const v1::WorkerMessage& message, Actions& actions);
  void ExpireQueue(SteadyTime now, Actions& actions);
  void Interrupt(const std::string& target);
  bool AnyWorkerFor(const std::string& target) const;
  bool Fits(const Worker& worker, bool may_measure, const Task& task, SteadyTime now) const;
  bool MayMeasure(const Worker& worker) const;  // whether it would be alone
  void PutBack(const TaskPtr& task, std::chrono::milliseconds pause);
  static void Run(Actions& actions);

  const PoolOptions options_;
  std::mutex mutex_;
  std::condition_variable idle_;
  // All guarded by mutex_.
  std::deque<TaskPtr> queue_;  // requests before background, each in order of arrival
  std::map<int, Worker> workers_;
  std::map<std::string, v1::WorkerInfo> known_;  // by worker id, those of the past too
  std::vector<double> queue_seconds_;
  std::optional<v1::Toolchain> toolchain_;
  struct Present {
    int workers = 0;
    SteadyTime left;  // the last one that did
  };
  std::map<std::string, Present> devices_;  // workers by the target that they run themselves
  std::string default_target_;
  int next_worker_ = 1;
  int64_t next_task_ = 1;
  int64_t crashes_ = 0;
  double task_seconds_ = 1;  // how long one takes, of late
  bool draining_ = false;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_POOL_H_
