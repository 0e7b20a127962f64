#include "server/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "compiler/support/error.h"
#include "compiler/support/retry_after.h"

namespace preheat::server {
namespace {

using ::testing::ElementsAre;

// What the pool sends, and whether it has killed the worker.
class FakeLink : public WorkerLink {
 public:
  void Send(v1::ServerMessage message) override {
    std::lock_guard lock(mutex_);
    sent_.push_back(std::move(message));
  }
  void Kill() override { killed_ = true; }
  bool killed() const { return killed_; }
  std::vector<v1::ServerMessage> Take() {
    std::lock_guard lock(mutex_);
    return std::exchange(sent_, {});
  }
  // The id of the one task that came since the last look; "" when none.
  std::string TaskId() {
    for (const v1::ServerMessage& message : Take()) {
      if (message.has_task()) return message.task().id();
    }
    return "";
  }

 private:
  std::mutex mutex_;
  std::vector<v1::ServerMessage> sent_;
  std::atomic<bool> killed_ = false;
};

class PoolTest : public testing::Test {
 protected:
  PoolOptions options_ = {.max_queue = 3,
                          .task_deadline = std::chrono::seconds(10),
                          .heartbeat_timeout = std::chrono::seconds(100),
                          .worker_timeout = std::chrono::seconds(60),
                          .cancel_patience = std::chrono::seconds(5),
                          .max_resident_bytes = 1000};
  Pool pool_{options_};
  std::vector<std::string> ends_;  // "name ok" or "name kind"

  PoolTask Task(const std::string& name, PoolTask::Priority priority = PoolTask::Priority::kRequest) {
    PoolTask task;
    task.message.mutable_compile()->mutable_request()->set_name(name);
    task.target = "cpu:x86-64-v3";
    task.priority = priority;
    task.on_key = [](const v1::KeyKnown& known) { return known.key() == "new"; };
    task.on_end = [this, name](absl::StatusOr<v1::TaskDone> done) {
      ends_.push_back(name + " " + (done.ok() ? "ok" : GetError(done.status()).kind));
    };
    return task;
  }
  std::pair<int, std::shared_ptr<FakeLink>> Connect(const std::string& id, const std::string& compiler = "g++ 12") {
    auto link = std::make_shared<FakeLink>();
    v1::Registration registration;
    registration.set_worker_id(id);
    registration.set_device("cpu:0");
    registration.set_target("cpu:x86-64-v4");
    registration.add_compile_targets("cpu:*");
    registration.mutable_toolchain()->set_host_compiler(compiler);
    auto worker = pool_.Connect(registration, link);
    EXPECT_TRUE(worker.ok()) << worker.status();
    return {worker.value_or(-1), link};
  }
  std::pair<int, std::shared_ptr<FakeLink>> ConnectGpu() {
    auto link = std::make_shared<FakeLink>();
    v1::Registration registration;
    registration.set_worker_id("cuda-0");
    registration.set_device("cuda:0");
    registration.set_target("cuda:sm_90");
    registration.mutable_toolchain()->set_host_compiler("g++ 12");
    auto worker = pool_.Connect(registration, link);
    EXPECT_TRUE(worker.ok()) << worker.status();
    return {worker.value_or(-1), link};
  }
  void Leave(int worker) {
    v1::WorkerMessage message;
    message.mutable_leaving();
    pool_.Receive(worker, message);
  }
  void Done(int worker, const std::string& task) {
    v1::WorkerMessage message;
    message.mutable_done()->set_task_id(task);
    pool_.Receive(worker, message);
  }
};

TEST_F(PoolTest, RequestsGoBeforeBackground) {
  ASSERT_TRUE(pool_.Submit(Task("background", PoolTask::Priority::kBackground)).ok());
  ASSERT_TRUE(pool_.Submit(Task("first")).ok());
  ASSERT_TRUE(pool_.Submit(Task("second")).ok());
  EXPECT_EQ(GetError(pool_.Submit(Task("more", PoolTask::Priority::kBackground)).status()).kind, "queue_full");
  ASSERT_TRUE(pool_.Submit(Task("third")).ok());  // what waits by choice takes no request's place
  EXPECT_EQ(pool_.Count().queued, 3u);
  const absl::Status full = pool_.Submit(Task("too many")).status();
  EXPECT_EQ(GetError(full).kind, "queue_full");
  ASSERT_TRUE(GetRetryAfter(full).has_value());
  EXPECT_GE(GetRetryAfter(full)->count(), 500);
  auto [worker, link] = Connect("w");
  for (int i = 0; i < 4; ++i) Done(worker, link->TaskId());
  EXPECT_THAT(ends_, ElementsAre("first ok", "second ok", "third ok", "background ok"));
  EXPECT_EQ(pool_.Count().idle, 1u);
  EXPECT_EQ(pool_.TakeQueueSeconds().size(), 3u);
}

// A request that finds no idle worker takes the one that works in the background; that begins anew after it, and is
// let be in the end.
TEST_F(PoolTest, RequestsInterruptWhatNobodyWaitsFor) {
  auto [worker, link] = Connect("w");
  ASSERT_TRUE(pool_.Submit(Task("tuning", PoolTask::Priority::kBackground)).ok());
  const std::string id = link->TaskId();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(pool_.Submit(Task("request")).ok());
    auto sent = link->Take();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].cancel().task_id(), id);
    v1::WorkerMessage stopped;
    stopped.mutable_failed()->set_task_id(id);
    stopped.mutable_failed()->mutable_error()->set_code("CANCELLED");
    pool_.Receive(worker, stopped);
    Done(worker, link->TaskId());   // the request
    EXPECT_EQ(link->TaskId(), id);  // and on with the tuning
  }
  EXPECT_EQ(ends_.size(), 5u);
  ASSERT_TRUE(pool_.Submit(Task("patient")).ok());
  EXPECT_TRUE(link->Take().empty()) << "interrupted often enough";
  Done(worker, id);
  Done(worker, link->TaskId());
  EXPECT_THAT(ends_, ElementsAre("request ok", "request ok", "request ok", "request ok", "request ok", "tuning ok",
                                 "patient ok"));
}

// What waits for a quiet machine would keep the worker from requests for minutes.
TEST_F(PoolTest, SomeTasksGiveWayHoweverOften) {
  auto [worker, link] = Connect("w");
  PoolTask tuning = Task("tuning", PoolTask::Priority::kBackground);
  tuning.most_interruptions = 1000;
  tuning.pause = std::chrono::milliseconds(20);
  ASSERT_TRUE(pool_.Submit(std::move(tuning)).ok());
  for (int i = 0; i < 8; ++i) {
    const std::string id = link->TaskId();
    ASSERT_NE(id, "");
    ASSERT_TRUE(pool_.Submit(Task("request")).ok());
    auto sent = link->Take();
    ASSERT_EQ(sent.size(), 1u) << i;
    EXPECT_EQ(sent[0].cancel().task_id(), id);
    v1::WorkerMessage stopped;
    stopped.mutable_failed()->set_task_id(id);
    stopped.mutable_failed()->mutable_error()->set_code("CANCELLED");
    pool_.Receive(worker, stopped);
    Done(worker, link->TaskId());
    EXPECT_EQ(link->TaskId(), "") << "after a pause";
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    pool_.Tick();
  }
  EXPECT_EQ(ends_.size(), 8u);
}

// Of what nobody waits for and measures, one task at a time on a machine, and the other workers stay free; what
// somebody has come to wait for overtakes it.
TEST_F(PoolTest, MeasuresForNobodyOneAtATime) {
  auto [first, first_link] = Connect("a");
  auto [second, second_link] = Connect("b");
  const auto tuning = [&](const std::string& name) {
    PoolTask task = Task(name, PoolTask::Priority::kBackground);
    task.alone = true;
    return task;
  };
  for (const char* name : {"one", "two", "three"}) ASSERT_TRUE(pool_.Submit(tuning(name)).ok());
  const std::string one = first_link->TaskId();
  EXPECT_NE(one, "");
  EXPECT_EQ(second_link->TaskId(), "") << "it is free for requests";
  ASSERT_TRUE(pool_.Submit(Task("request")).ok());
  EXPECT_EQ(first_link->TaskId(), "") << "nobody is interrupted";
  Done(second, second_link->TaskId());
  pool_.Hurry([](PoolTask& task) {
    if (task.message.compile().request().name() != "three") return false;
    task.alone = false;
    return true;
  });
  const std::string three = second_link->TaskId();
  EXPECT_NE(three, "") << "beside the first";
  Done(second, three);
  EXPECT_EQ(second_link->TaskId(), "");
  Done(first, one);
  Done(first, first_link->TaskId());
  EXPECT_THAT(ends_, ElementsAre("request ok", "three ok", "one ok", "two ok"));
}

TEST_F(PoolTest, MeasuresOnSeveralMachinesAndGpusAtOnce) {
  v1::Registration registration;
  registration.set_target("cpu:x86-64-v3");
  registration.set_device("cpu:0");
  auto links = std::vector<std::shared_ptr<FakeLink>>();
  const auto connect = [&](const std::string& machine) {
    links.push_back(std::make_shared<FakeLink>());
    registration.set_worker_id(absl::StrCat("w", links.size()));
    registration.set_machine(machine);
    ASSERT_TRUE(pool_.Connect(registration, links.back()).ok());
  };
  connect("here"), connect("here"), connect("there");
  registration.set_target("cuda:sm_90");
  registration.set_device("cuda:0");
  connect("here");
  for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v3", "cuda:sm_90"}) {
    PoolTask task = Task("tuning", PoolTask::Priority::kBackground);
    task.target = target;
    task.alone = true;
    ASSERT_TRUE(pool_.Submit(std::move(task)).ok());
  }
  std::vector<bool> busy;
  for (const auto& link : links) busy.push_back(!link->TaskId().empty());
  EXPECT_THAT(busy, ElementsAre(true, false, true, true));
}

// What is to run on a device waits for its worker, while there is one or it has only just left.
TEST_F(PoolTest, TasksThatRunGoToTheDevicesOwnWorker) {
  auto [cpu, cpu_link] = Connect("w");
  EXPECT_EQ(pool_.default_target(), "cpu:x86-64-v4");
  const auto measure = [&] {
    PoolTask task = Task("measure", PoolTask::Priority::kBackground);
    task.target = "cpu:x86-64-v3";
    task.to_run = true;
    return task;
  };
  ASSERT_TRUE(pool_.Submit(measure()).ok());
  EXPECT_NE(cpu_link->TaskId(), "") << "there is no such device: who can compile for it says so";
  PoolTask gpu_task = Task("gpu", PoolTask::Priority::kBackground);
  gpu_task.target = "cuda:sm_90";
  gpu_task.to_run = true;
  auto [gpu, gpu_link] = ConnectGpu();
  ASSERT_TRUE(pool_.Submit(PoolTask(gpu_task)).ok());
  const std::string first = gpu_link->TaskId();
  EXPECT_NE(first, "");
  ASSERT_TRUE(pool_.Submit(PoolTask(gpu_task)).ok());
  EXPECT_EQ(cpu_link->TaskId(), "");
  Done(gpu, first);
  EXPECT_NE(gpu_link->TaskId(), "");
  EXPECT_EQ(pool_.default_target(), "cpu:x86-64-v4") << "a GPU is nobody's default";
}

TEST_F(PoolTest, AWorkerThatLeavesItsGpuIsNoCrash) {
  auto [gpu, link] = ConnectGpu();
  PoolTask task = Task("gpu");
  task.target = "cuda:sm_90";
  ASSERT_TRUE(pool_.Submit(PoolTask(task)).ok());
  const std::string id = link->TaskId();
  Leave(gpu);  // a task has crossed the message on its way
  EXPECT_TRUE(link->Take().empty());
  Done(gpu, id);
  Leave(gpu);
  auto sent = link->Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(sent[0].has_drain());
  ASSERT_TRUE(pool_.Submit(PoolTask(task)).ok());
  EXPECT_EQ(link->TaskId(), "") << "it is on its way out";
  pool_.Disconnect(gpu);
  EXPECT_EQ(pool_.Count().crashes, 0u);
  auto [again, again_link] = ConnectGpu();
  EXPECT_NE(again_link->TaskId(), "");
}

// A GPU that a job uses is asked for again later; who waits for an answer gets one.
TEST_F(PoolTest, ABusyGpuIsTriedAgain) {
  auto [gpu, link] = ConnectGpu();
  for (const PoolTask::Priority priority : {PoolTask::Priority::kBackground, PoolTask::Priority::kRequest}) {
    PoolTask task = Task("gpu", priority);
    task.target = "cuda:sm_90";
    ASSERT_TRUE(pool_.Submit(std::move(task)).ok());
    v1::WorkerMessage busy;
    busy.mutable_failed()->set_task_id(link->TaskId());
    busy.mutable_failed()->mutable_error()->set_code("UNAVAILABLE");
    busy.mutable_failed()->mutable_error()->set_kind("gpu_busy");
    pool_.Receive(gpu, busy);
  }
  EXPECT_THAT(ends_, ElementsAre("gpu gpu_busy")) << "of the request alone";
}

TEST_F(PoolTest, TasksWaitForTheirTime) {
  auto [worker, link] = Connect("w");
  PoolTask later = Task("later", PoolTask::Priority::kBackground);
  later.not_before = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
  ASSERT_TRUE(pool_.Submit(std::move(later)).ok());
  pool_.Tick();
  EXPECT_EQ(link->TaskId(), "");
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  pool_.Tick();
  EXPECT_NE(link->TaskId(), "");
}

TEST_F(PoolTest, AnswersTheKey) {
  auto [worker, link] = Connect("w");
  ASSERT_TRUE(pool_.Submit(Task("a")).ok());
  std::string id = link->TaskId();
  for (const char* key : {"new", "old"}) {
    v1::WorkerMessage message;
    message.mutable_key_known()->set_task_id(id);
    message.mutable_key_known()->set_key(key);
    pool_.Receive(worker, message);
  }
  auto sent = link->Take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_TRUE(sent[0].key_answer().compile());
  EXPECT_FALSE(sent[1].key_answer().compile());
}

TEST_F(PoolTest, ALostTaskGoesToAnotherWorkerOnce) {
  auto [first, first_link] = Connect("w1");
  ASSERT_TRUE(pool_.Submit(Task("a")).ok());
  auto [second, second_link] = Connect("w2");
  EXPECT_EQ(second_link->TaskId(), "");
  pool_.Disconnect(first);
  std::string id = second_link->TaskId();
  EXPECT_EQ(id, first_link->TaskId());
  EXPECT_TRUE(ends_.empty());
  pool_.Disconnect(second);
  EXPECT_THAT(ends_, ElementsAre("a task_killed_workers"));
  EXPECT_EQ(pool_.Count().crashes, 2);
  EXPECT_EQ(pool_.Count().lost, 2u);
}

TEST_F(PoolTest, ALostBackgroundTaskStaysBehindRequests) {
  auto [first, first_link] = Connect("w1");
  ASSERT_TRUE(pool_.Submit(Task("background", PoolTask::Priority::kBackground)).ok());
  ASSERT_TRUE(pool_.Submit(Task("first")).ok());  // its worker is told to stop, and is lost over it
  pool_.Disconnect(first);
  ASSERT_TRUE(pool_.Submit(Task("second")).ok());
  auto [second, second_link] = Connect("w2");
  for (int i = 0; i < 2; ++i) Done(second, second_link->TaskId());
  v1::WorkerMessage failed;  // by itself: nobody interrupts it now
  failed.mutable_failed()->set_task_id(second_link->TaskId());
  failed.mutable_failed()->mutable_error()->set_code("INTERNAL");
  failed.mutable_failed()->mutable_error()->set_kind("broken");
  pool_.Receive(second, failed);
  EXPECT_THAT(ends_, ElementsAre("first ok", "second ok", "background broken"));
}

TEST_F(PoolTest, KillsOnDeadlineMemoryAndSilence) {
  auto now = std::chrono::steady_clock::now();
  auto [slow, slow_link] = Connect("slow");
  ASSERT_TRUE(pool_.Submit(Task("a")).ok());
  pool_.Tick(now + std::chrono::seconds(5));
  EXPECT_FALSE(slow_link->killed());
  pool_.Tick(now + std::chrono::seconds(11));
  EXPECT_TRUE(slow_link->killed());
  EXPECT_THAT(ends_, ElementsAre("a task_deadline"));
  Done(slow, "t1");  // too late: ignored
  EXPECT_EQ(ends_.size(), 1u);
  pool_.Disconnect(slow);

  auto [fat, fat_link] = Connect("fat");
  v1::WorkerMessage heartbeat;
  heartbeat.mutable_heartbeat()->set_resident_bytes(1000);
  pool_.Receive(fat, heartbeat);
  EXPECT_FALSE(fat_link->killed());
  pool_.NoteMemory("another", 5000);
  EXPECT_FALSE(fat_link->killed());
  pool_.NoteMemory("fat", 1001);
  EXPECT_TRUE(fat_link->killed());
  ASSERT_TRUE(pool_.Submit(Task("b")).ok());
  EXPECT_EQ(fat_link->TaskId(), "");  // a killed worker gets no task

  auto [silent, silent_link] = Connect("silent");
  EXPECT_NE(silent_link->TaskId(), "");
  Done(silent, "t2");
  pool_.Tick(now + std::chrono::seconds(300));
  EXPECT_TRUE(silent_link->killed());
}

TEST_F(PoolTest, CancelsQueuedTasksAtOnceAndRunningOnesByMessage) {
  auto [worker, link] = Connect("w");
  std::string running = *pool_.Submit(Task("running")), queued = *pool_.Submit(Task("queued"));
  link->Take();
  pool_.Cancel(queued);
  EXPECT_THAT(ends_, ElementsAre("queued cancelled"));
  pool_.Cancel(running);
  auto sent = link->Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].cancel().task_id(), running);
  pool_.Disconnect(worker);  // a cancelled task is not tried again
  EXPECT_THAT(ends_, ElementsAre("queued cancelled", "running cancelled"));
  pool_.Cancel("t999");
}

TEST_F(PoolTest, AWorkerThatGoesOnWithWhatNobodyWantsIsEnded) {
  auto [worker, link] = Connect("w");
  const auto now = std::chrono::steady_clock::now();
  pool_.Cancel(*pool_.Submit(Task("stubborn")));
  pool_.Tick(now + std::chrono::seconds(2));
  EXPECT_FALSE(link->killed());
  pool_.Tick(now + std::chrono::seconds(9));
  EXPECT_TRUE(link->killed());
  pool_.Disconnect(worker);
  EXPECT_THAT(ends_, ElementsAre("stubborn cancelled"));
}

TEST_F(PoolTest, TakesOnlyOneToolchain) {
  auto [worker, link] = Connect("w", "g++ 12");
  v1::Registration other;
  other.set_worker_id("other");
  other.set_target("cpu:x86-64-v3");
  other.mutable_toolchain()->set_host_compiler("g++ 13");
  EXPECT_EQ(GetError(pool_.Connect(other, link).status()).kind, "toolchain_mismatch");
  EXPECT_EQ(GetError(pool_.Connect(v1::Registration(), link).status()).kind, "bad_registration");
  pool_.Disconnect(worker);
  EXPECT_TRUE(pool_.Connect(other, link).ok());  // all have been replaced
  EXPECT_EQ(pool_.toolchain()->host_compiler(), "g++ 13");
}

TEST_F(PoolTest, NamesATargetThatNobodyCompilesFor) {
  PoolTask task = Task("a");
  task.target = "cuda:sm_90";
  EXPECT_TRUE(pool_.Submit(task).ok());  // no worker is there: one may come
  Connect("w");
  EXPECT_EQ(GetError(pool_.Submit(task).status()).kind, "no_worker_for_target");
}

TEST_F(PoolTest, GivesUpWhenNoWorkerComes) {
  ASSERT_TRUE(pool_.Submit(Task("a")).ok());
  pool_.Tick(std::chrono::steady_clock::now() + std::chrono::seconds(30));
  EXPECT_TRUE(ends_.empty());
  pool_.Tick(std::chrono::steady_clock::now() + std::chrono::seconds(61));
  EXPECT_THAT(ends_, ElementsAre("a no_worker"));
}

TEST_F(PoolTest, Drains) {
  auto [worker, link] = Connect("w");
  ASSERT_TRUE(pool_.Submit(Task("running")).ok());
  ASSERT_TRUE(pool_.Submit(Task("queued")).ok());
  ASSERT_TRUE(pool_.Submit(Task("background", PoolTask::Priority::kBackground)).ok());
  pool_.Drain();
  EXPECT_THAT(ends_, ElementsAre("background cancelled"));
  EXPECT_EQ(GetError(pool_.Submit(Task("late")).status()).kind, "draining");
  EXPECT_FALSE(pool_.WaitIdle(std::chrono::milliseconds(1)));
  Done(worker, "t1");
  Done(worker, "t2");
  EXPECT_TRUE(pool_.WaitIdle(std::chrono::milliseconds(1)));
  EXPECT_THAT(ends_, ElementsAre("background cancelled", "running ok", "queued ok"));
  pool_.Shutdown();
  EXPECT_TRUE(link->Take().back().has_drain());
}

TEST_F(PoolTest, EndsEachTaskOnceUnderThreads) {
  Pool pool({.max_queue = 100000});
  std::atomic<int> ended = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        PoolTask task;
        task.target = "cpu:x86-64-v4";
        task.on_end = [&](absl::StatusOr<v1::TaskDone>) { ++ended; };
        auto id = pool.Submit(task);
        if (i % 7 == 0) pool.Cancel(*id);
      }
    });
  }
  std::atomic<bool> stop = false;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) {
        auto link = std::make_shared<FakeLink>();
        v1::Registration registration;
        registration.set_worker_id("w" + std::to_string(t));
        registration.set_target("cpu:x86-64-v4");
        int worker = *pool.Connect(registration, link);
        for (int j = 0; j < 20; ++j) {
          v1::WorkerMessage message;
          message.mutable_done()->set_task_id(link->TaskId());
          pool.Receive(worker, message);
        }
        pool.Tick();
        pool.Disconnect(worker);
      }
    });
  }
  for (int t = 0; t < 3; ++t) threads[t].join();
  while (pool.Count().queued > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  stop = true;
  threads[3].join();
  threads[4].join();
  pool.Shutdown();
  EXPECT_EQ(ended, 600);
}

}  // namespace
}  // namespace preheat::server
