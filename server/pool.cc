#include "server/pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/support/error.h"
#include "compiler/support/retry_after.h"
#include "compiler/support/status_macros.h"
#include "server/rpc/error_proto.h"

namespace preheat::server {
namespace {

constexpr std::chrono::seconds kAwhile{60};  // that a device's worker may be away, or a busy device is left alone
constexpr int kMostLostWorkers = 2;          // a task that ends so many is refused
constexpr double kNewTaskWeight = 0.1;       // in the average of how long a task takes
constexpr size_t kMostKnownWorkers = 256;    // of the past, for listings
constexpr size_t kMostQueueTimes = 10000;    // between two calls of TakeQueueSeconds

absl::Status Unavailable(std::string kind, std::string message, std::string fix) {
  return MakeError(absl::StatusCode::kUnavailable,
                   {.kind = std::move(kind), .message = std::move(message), .where = "", .fix = std::move(fix)});
}

absl::Status CancelledTask() {
  return MakeError(absl::StatusCode::kCancelled,
                   {.kind = "cancelled", .message = "nobody waits for it any more", .where = "", .fix = ""});
}

absl::Status KilledWorkers(const std::string& reason) {
  return MakeError(
      absl::StatusCode::kInternal,
      {.kind = "task_killed_workers",
       .message = absl::StrCat("two workers ended over this task; the last: ", reason),
       .where = "",
       .fix = "see the worker logs in the server's data folder; raise worker_memory_bytes if memory was the cause"});
}

absl::Status PastDeadline(std::chrono::milliseconds limit) {
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   {.kind = "task_deadline",
                    .message = absl::StrCat("not done after ", limit.count() / 1000, " s"),
                    .where = "",
                    .fix = "raise task_deadline_seconds"});
}

absl::Status OtherToolchain(const v1::Toolchain& pool, const v1::Registration& worker) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "toolchain_mismatch",
                    .message = absl::StrCat("this pool compiles with ", pool.ShortDebugString(), ", the worker with ",
                                            worker.toolchain().ShortDebugString()),
                    .where = worker.worker_id(),
                    .fix = "give all workers of a server the same compiler"});
}

// "cpu:*" takes whatever starts with "cpu:".
bool Matches(const std::string& pattern, const std::string& target) {
  if (!absl::EndsWith(pattern, "*")) return pattern == target;
  return absl::StartsWith(target, pattern.substr(0, pattern.size() - 1));
}

// What workers share, so that one that measures there is to be alone.
std::string PlaceOf(const v1::Registration& registration) {
  const bool on_gpu = absl::StartsWith(registration.target(), "cuda:");
  return absl::StrCat(registration.machine(), " ", on_gpu ? registration.device() : "cpu");
}

bool CanCompileFor(const v1::Registration& registration, const std::string& target) {
  if (registration.target() == target) return true;
  return std::any_of(registration.compile_targets().begin(), registration.compile_targets().end(),
                     [&](const std::string& pattern) { return Matches(pattern, target); });
}

}  // namespace

struct Pool::Task {
  PoolTask task;
  std::string id;
  SteadyTime queued;
  int lost_workers = 0;
  int interruptions = 0;
  bool interrupted = false;  // its worker was told to stop: to be queued again
  bool cancelled = false;
};

// For people: "compile bert-base", "verify 0123456789ab".
std::string NameOf(const v1::Task& task) {
  if (task.has_compile()) return absl::StrCat("compile ", task.compile().request().name());
  if (task.has_verify()) return absl::StrCat("verify ", task.verify().manifest().key().substr(0, 12));
  return absl::StrCat("tune ", task.tune().manifest().key().substr(0, 12));
}

struct Pool::Worker {
  int number = 0;
  v1::Registration registration;
  std::string place;  // what it shares with others
  std::shared_ptr<WorkerLink> link;
  TaskPtr task;                            // null: idle
  SteadyTime begun, deadline;              // of the task
  std::optional<SteadyTime> cancelled_at;  // the task
  SteadyTime heard;
  std::string killed;  // why the pool has killed it; empty: it has not
  bool leaving = false;
  int64_t resident_bytes = 0;  // by its last heartbeat
};

Pool::Pool(PoolOptions options) : options_(options) {}
Pool::~Pool() = default;

void Pool::Run(Actions& actions) {
  for (auto& action : actions) action();
}

// --- Tasks ---

absl::StatusOr<std::string> Pool::Submit(PoolTask task) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(MayQueue(task));
  auto queued = std::make_shared<Task>();
  queued->id = absl::StrCat("t", next_task_++);
  queued->queued = std::chrono::steady_clock::now();
  queued->task = std::move(task);
  const bool request = queued->task.priority == PoolTask::Priority::kRequest;
  queue_.insert(request ? FirstBackground() : queue_.end(), queued);
  Dispatch();
  if (request && std::count(queue_.begin(), queue_.end(), queued) > 0) Interrupt(queued->task.target);
  return queued->id;
}

void Pool::Hurry(const std::function<bool(PoolTask&)>& change) {
  std::lock_guard lock(mutex_);
  const auto first = FirstBackground() - queue_.begin();
  const auto rest = std::stable_partition(queue_.begin() + first, queue_.end(),
                                          [&](const TaskPtr& task) { return change(task->task); });
  if (rest != queue_.begin() + first) Dispatch();
}

absl::Status Pool::MayQueue(const PoolTask& task) const {
  if (draining_) return Unavailable("draining", "the server is about to stop", "retry: another one takes over");
  const size_t waiting = task.priority == PoolTask::Priority::kRequest ? QueuedRequests() : queue_.size();
  if (waiting >= options_.max_queue) {
    return WithRetryAfter(
        MakeError(absl::StatusCode::kResourceExhausted, {.kind = "queue_full",
                                                         .message = absl::StrCat(waiting, " tasks are waiting already"),
                                                         .where = "",
                                                         .fix = "ask again later, or give the server more workers"}),
        RetryAfter());
  }
  if (workers_.empty() || AnyWorkerFor(task.target)) return absl::OkStatus();
  std::vector<std::string> targets;
  for (const auto& [number, worker] : workers_) targets.push_back(worker.registration.target());
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.kind = "no_worker_for_target",
                    .message = absl::StrCat("no worker compiles for ", task.target),
                    .where = task.target,
                    .fix = absl::StrCat("workers are there for ", absl::StrJoin(targets, ", "))});
}

// A request waits: a worker that verifies or tunes for nobody is to stop.
void Pool::Interrupt(const std::string& target) {
  for (auto& [number, worker] : workers_) {
    if (worker.task == nullptr || worker.cancelled_at) continue;
    if (worker.task->task.priority != PoolTask::Priority::kBackground) continue;
    if (!CanCompileFor(worker.registration, target)) continue;
    if (worker.task->interruptions >= worker.task->task.most_interruptions) continue;
    ++worker.task->interruptions;
    worker.task->interrupted = true;
    worker.cancelled_at = std::chrono::steady_clock::now();
    v1::ServerMessage message;
    message.mutable_cancel()->set_task_id(worker.task->id);
    worker.link->Send(std::move(message));
    return;
  }
}

void Pool::Cancel(const std::string& id) {
  Actions actions;
  {
    std::lock_guard lock(mutex_);
    auto queued = std::find_if(queue_.begin(), queue_.end(), [&](const TaskPtr& task) { return task->id == id; });
    if (queued != queue_.end()) {
      End(*queued, CancelledTask(), actions);
      queue_.erase(queued);
    }
    for (auto& [number, worker] : workers_) {
      if (worker.task == nullptr || worker.task->id != id) continue;
      worker.task->cancelled = true;
      worker.cancelled_at = std::chrono::steady_clock::now();
      v1::ServerMessage message;
      message.mutable_cancel()->set_task_id(id);
      worker.link->Send(std::move(message));
    }
  }
  Run(actions);
}

bool Pool::AnyWorkerFor(const std::string& target) const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [&](const auto& entry) { return CanCompileFor(entry.second.registration, target); });
}

bool Pool::Fits(const Worker& worker, bool may_measure, const Task& task, SteadyTime now) const {
  if (task.task.not_before > now || !CanCompileFor(worker.registration, task.task.target)) return false;
  if (task.task.alone && !may_measure) return false;
  if (!task.task.to_run || worker.registration.target() == task.task.target) return true;
  auto device = devices_.find(task.task.target);  // else one that can say why it cannot
  return device == devices_.end() || (device->second.workers == 0 && now - device->second.left > kAwhile);
}

bool Pool::MayMeasure(const Worker& worker) const {
  return std::none_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
    const Worker& other = entry.second;
    return other.task != nullptr && other.task->task.alone && other.place == worker.place;
  });
}

void Pool::Dispatch() {
  auto now = std::chrono::steady_clock::now();
  for (auto& [number, worker] : workers_) {
    if (worker.task != nullptr || worker.leaving || !worker.killed.empty()) continue;
    auto fits = std::find_if(queue_.begin(), queue_.end(),
                             [&, w = &worker, may_measure = MayMeasure(worker)](const TaskPtr& task) {
                               return Fits(*w, may_measure, *task, now);
                             });
    if (fits == queue_.end()) continue;
    worker.task = *fits;
    queue_.erase(fits);
    worker.begun = now;
    worker.deadline = now + options_.task_deadline;
    worker.cancelled_at.reset();
    if (worker.task->task.priority == PoolTask::Priority::kRequest && queue_seconds_.size() < kMostQueueTimes) {
      queue_seconds_.push_back(std::chrono::duration<double>(now - worker.task->queued).count());
    }
    v1::ServerMessage message;
    *message.mutable_task() = worker.task->task.message;
    message.mutable_task()->set_id(worker.task->id);
    message.mutable_task()->set_deadline_ms(options_.task_deadline.count());
    message.mutable_task()->set_memory_bytes(options_.max_resident_bytes);
    worker.link->Send(std::move(message));
  }
  idle_.notify_all();
}

void Pool::End(const TaskPtr& task, absl::StatusOr<v1::TaskDone> result, Actions& actions) {
  // Kept alive by the closure; called without the lock.
  actions.push_back([task, result = std::move(result)]() mutable { task->task.on_end(std::move(result)); });
}

void Pool::Requeue(const TaskPtr& task, const std::string& reason, Actions& actions) {
  if (task->cancelled) return End(task, CancelledTask(), actions);
  if (++task->lost_workers >= kMostLostWorkers) return End(task, KilledWorkers(reason), actions);
  task->interrupted = false;  // the worker that was told so is gone
  queue_.insert(task->task.priority == PoolTask::Priority::kRequest ? queue_.begin() : FirstBackground(), task);
}

// --- Workers ---

absl::StatusOr<int> Pool::Connect(const v1::Registration& registration, std::shared_ptr<WorkerLink> link) {
  std::lock_guard lock(mutex_);
  if (registration.worker_id().empty() || registration.worker_id().size() > 128 || registration.target().empty()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        {.kind = "bad_registration", .message = "a worker says its id and its target", .where = "", .fix = ""});
  }
  if (!toolchain_ || workers_.empty()) toolchain_ = registration.toolchain();
  if (toolchain_->SerializeAsString() != registration.toolchain().SerializeAsString())
    return OtherToolchain(*toolchain_, registration);
  const bool on_gpu = absl::StartsWith(registration.target(), "cuda:");
  if (!on_gpu && (default_target_.empty() || workers_.empty())) default_target_ = registration.target();
  if (known_.size() >= kMostKnownWorkers) known_.clear();
  v1::WorkerInfo& info = known_[registration.worker_id()];
  info.set_id(registration.worker_id());
  info.set_device(registration.device());
  info.set_target(registration.target());
  const int number = next_worker_++;
  Worker& worker = workers_[number];
  worker.number = number;
  worker.registration = registration;
  worker.place = PlaceOf(registration);
  worker.link = std::move(link);
  worker.heard = std::chrono::steady_clock::now();
  ++devices_[registration.target()].workers;
  Dispatch();
  return number;
}

void Pool::Disconnect(int number) {
  Actions actions;
  {
    std::lock_guard lock(mutex_);
    auto found = workers_.find(number);
    if (found == workers_.end()) return;
    Worker worker = std::move(found->second);
    workers_.erase(found);
    Present& device = devices_[worker.registration.target()];
    --device.workers;
    device.left = std::chrono::steady_clock::now();
    if (!draining_ && !worker.leaving) {
      ++crashes_;
      v1::WorkerInfo& info = known_[worker.registration.worker_id()];
      info.set_crashes(info.crashes() + 1);
    }
    std::string reason = worker.killed.empty() ? "it ended by itself" : worker.killed;
    if (worker.task != nullptr) Requeue(worker.task, reason, actions);
    Dispatch();
  }
  Run(actions);
}

void Pool::Kill(Worker& worker, std::string reason) {
  if (!worker.killed.empty()) return;
  worker.killed = std::move(reason);
  worker.link->Kill();
}

void Pool::CheckMemory(Worker& worker, int64_t resident_bytes) {
  if (options_.max_resident_bytes <= 0 || resident_bytes <= options_.max_resident_bytes) return;
  Kill(worker, absl::StrCat("it held ", resident_bytes >> 20, " MiB of memory, more than the limit of ",
                            options_.max_resident_bytes >> 20));
}

void Pool::NoteMemory(const std::string& worker_id, int64_t resident_bytes) {
  std::lock_guard lock(mutex_);
  for (auto& [number, worker] : workers_) {
    if (worker.registration.worker_id() == worker_id) CheckMemory(worker, resident_bytes);
  }
}

// About when half of the queue is done: early ones find it full again, late ones find it empty.
std::chrono::milliseconds Pool::RetryAfter() const {
  const double seconds = task_seconds_ * static_cast<double>(queue_.size()) /
                         (2 * std::max<double>(1, static_cast<double>(workers_.size())));
  return std::chrono::milliseconds(static_cast<int64_t>(std::clamp(seconds, 0.5, 30.0) * 1000));
}

Pool::TaskPtr Pool::Release(Worker& worker, const std::string& task_id) {
  if (worker.task == nullptr || worker.task->id != task_id) return nullptr;
  v1::WorkerInfo& info = known_[worker.registration.worker_id()];
  info.set_tasks(info.tasks() + 1);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - worker.begun;
  task_seconds_ += (took.count() - task_seconds_) * kNewTaskWeight;
  return std::exchange(worker.task, nullptr);
}

void Pool::PutBack(const TaskPtr& task, std::chrono::milliseconds pause) {
  task->task.not_before = std::chrono::steady_clock::now() + pause;
  queue_.push_back(task);
}

void Pool::HandleDone(Worker& worker, v1::WorkerMessage message, Actions& actions) {
  bool failed = message.has_failed();
  TaskPtr task = Release(worker, failed ? message.failed().task_id() : message.done().task_id());
  if (task == nullptr) return;  // of a task that was given up
  if (failed && std::exchange(task->interrupted, false) && !task->cancelled) {
    PutBack(task, task->task.pause);
  } else if (failed && message.failed().error().kind() == "gpu_busy" && !task->cancelled &&
             task->task.priority == PoolTask::Priority::kBackground) {
    PutBack(task, std::max<std::chrono::milliseconds>(task->task.pause, kAwhile));
  } else if (failed) {
    End(task, FromProto(message.failed().error()), actions);
  } else {
    End(task, std::move(*message.mutable_done()), actions);
  }
  Dispatch();
}

void Pool::HandleRunning(Worker& worker, const v1::WorkerMessage& message, Actions& actions) {
  const std::string& id = message.has_progress() ? message.progress().task_id() : message.key_known().task_id();
  if (worker.task == nullptr || worker.task->id != id) return;
  if (message.has_progress()) {
    actions.push_back([task = worker.task, progress = message.progress().progress()] {
      if (task->task.on_progress) task->task.on_progress(progress);
    });
    return;
  }
  actions.push_back([task = worker.task, link = worker.link, known = message.key_known()] {
    v1::ServerMessage answer;
    answer.mutable_key_answer()->set_task_id(known.task_id());
    answer.mutable_key_answer()->set_compile(task->task.on_key && task->task.on_key(known));
    link->Send(std::move(answer));
  });
}

void Pool::Receive(int number, v1::WorkerMessage message) {
  Actions actions;
  {
    std::lock_guard lock(mutex_);
    auto found = workers_.find(number);
    if (found == workers_.end()) return;
    Worker& worker = found->second;
    worker.heard = std::chrono::steady_clock::now();
    if (message.has_heartbeat()) worker.resident_bytes = message.heartbeat().resident_bytes();
    CheckMemory(worker, message.heartbeat().resident_bytes());
    if (message.has_progress() || message.has_key_known()) HandleRunning(worker, message, actions);
    if (message.has_leaving() && worker.task == nullptr) {
      worker.leaving = true;
      v1::ServerMessage drain;
      drain.mutable_drain();
      worker.link->Send(std::move(drain));
    }
    if (message.has_done() || message.has_failed()) HandleDone(worker, std::move(message), actions);
  }
  Run(actions);
}

void Pool::ExpireQueue(SteadyTime now, Actions& actions) {
  if (!workers_.empty()) return;
  while (!queue_.empty() && now - queue_.front()->queued > options_.worker_timeout) {
    End(queue_.front(),
        Unavailable("no_worker", "no worker has come up", "see the worker logs in the server's data folder"), actions);
    queue_.pop_front();
  }
}

void Pool::Tick(SteadyTime now) {
  Actions actions;
  {
    std::lock_guard lock(mutex_);
    for (auto& [number, worker] : workers_) {
      if (worker.task != nullptr && now > worker.deadline) {
        if (TaskPtr task = Release(worker, worker.task->id)) End(task, PastDeadline(options_.task_deadline), actions);
        Kill(worker, "its task ran past the deadline");
      } else if (worker.task != nullptr && worker.cancelled_at &&
                 now - *worker.cancelled_at > options_.cancel_patience) {
        Kill(worker, "it went on with a task that nobody wants");
      } else if (now - worker.heard > options_.heartbeat_timeout) {
        Kill(worker, "it was silent for too long");
      }
    }
    ExpireQueue(now, actions);
    Dispatch();
  }
  Run(actions);
}

// --- The end ---

void Pool::Drain() {
  Actions actions;
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
    std::deque<TaskPtr> requests;
    for (const TaskPtr& task : queue_) {
      if (task->task.priority == PoolTask::Priority::kRequest) {
        requests.push_back(task);
      } else {
        End(task, CancelledTask(), actions);
      }
    }
    queue_.swap(requests);
  }
  Run(actions);
}

bool Pool::WaitIdle(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, timeout, [&] {
    return queue_.empty() && std::all_of(workers_.begin(), workers_.end(), [](const auto& entry) {
             return entry.second.task == nullptr || entry.second.task->task.priority == PoolTask::Priority::kBackground;
           });
  });
}

void Pool::Shutdown() {
  Actions actions;
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
    absl::Status stopped = Unavailable("draining", "the server has stopped", "retry: another one takes over");
    for (const TaskPtr& task : queue_) End(task, stopped, actions);
    queue_.clear();
    for (auto& [number, worker] : workers_) {
      if (worker.task != nullptr) End(std::exchange(worker.task, nullptr), stopped, actions);
      v1::ServerMessage message;
      message.mutable_drain();
      worker.link->Send(std::move(message));
    }
  }
  Run(actions);
}

// --- What people ask ---

std::deque<Pool::TaskPtr>::iterator Pool::FirstBackground() {
  return std::find_if(queue_.begin(), queue_.end(),
                      [](const TaskPtr& queued) { return queued->task.priority == PoolTask::Priority::kBackground; });
}

size_t Pool::QueuedRequests() const {
  return static_cast<size_t>(std::count_if(queue_.begin(), queue_.end(), [](const TaskPtr& task) {
    return task->task.priority == PoolTask::Priority::kRequest;
  }));
}

Pool::Counts Pool::Count() {
  std::lock_guard lock(mutex_);
  Counts counts;
  counts.queued = QueuedRequests();
  counts.crashes = crashes_;
  for (const auto& [number, worker] : workers_) ++(worker.task == nullptr ? counts.idle : counts.busy);
  counts.lost = known_.size() - std::min(known_.size(), workers_.size());
  return counts;
}

std::vector<v1::WorkerInfo> Pool::Workers() {
  const SteadyTime now = std::chrono::steady_clock::now();
  std::lock_guard lock(mutex_);
  std::map<std::string, v1::WorkerInfo> infos = known_;
  for (auto& [id, info] : infos) info.set_state("lost");
  for (const auto& [number, worker] : workers_) {
    v1::WorkerInfo& info = infos[worker.registration.worker_id()];
    info.set_state(worker.task == nullptr ? "idle" : "busy");
    info.set_resident_bytes(worker.resident_bytes);
    if (worker.task == nullptr) continue;
    info.set_task(NameOf(worker.task->task.message));
    const SteadyTime began = worker.deadline - options_.task_deadline;
    info.set_task_seconds(std::chrono::duration<double>(now - began).count());
  }
  std::vector<v1::WorkerInfo> list;
  for (auto& [id, info] : infos) list.push_back(std::move(info));
  return list;
}

std::vector<double> Pool::TakeQueueSeconds() {
  std::lock_guard lock(mutex_);
  return std::exchange(queue_seconds_, {});
}

std::optional<v1::Toolchain> Pool::toolchain() {
  std::lock_guard lock(mutex_);
  return toolchain_;
}

void Pool::set_toolchain(v1::Toolchain toolchain) {
  std::lock_guard lock(mutex_);
  toolchain_ = std::move(toolchain);
}

std::string Pool::default_target() {
  std::lock_guard lock(mutex_);
  return default_target_;
}

}  // namespace preheat::server
