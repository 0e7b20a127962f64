#ifndef PREHEAT_SERVER_WORKER_PROCESSES_H_
#define PREHEAT_SERVER_WORKER_PROCESSES_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "compiler/support/subprocess.h"

namespace preheat::server {

// GPUs whose device files this machine, or container, shows.
int CountGpus();

struct WorkerProcessesOptions {
  std::string program;  // path of preheat-worker
  int count = 1;
  int gpus = 0;            // workers besides, one for each of the first so many GPUs
  std::string server;      // "127.0.0.1:7433", where it connects
  std::string pool_token;  // handed over in the environment, PREHEAT_POOL_TOKEN
  std::string log_folder;  // one file a worker: worker-0.log
  // Told several times a second what each worker and its children hold, from a thread of its own.
  std::function<void(const std::string& worker_id, int64_t resident_bytes)> on_memory;
};

// Keeps worker processes alive: one that ends is started again, after 0.2 s, 0.4 s, ... up to 30 s
// while it does not live for a minute. Safe from several threads at once.
class WorkerProcesses {
 public:
  explicit WorkerProcesses(WorkerProcessesOptions options) : options_(std::move(options)) {}
  ~WorkerProcesses() { Stop(std::chrono::milliseconds(0)); }

  void Start();
  // The process of that worker id ("cpu-0", "cuda-1"), with its children; it is started again. Unknown ids are ignored.
  void Kill(const std::string& worker_id);
  // No restarts any more; waits for the processes to end by themselves (the pool has told them), then kills them.
  void Stop(std::chrono::milliseconds patience);

 private:
  void Keep(int index);
  void Watch();
  // False when stopping.
  bool Sleep(std::chrono::milliseconds time);
  std::shared_ptr<Subprocess> Spawn(int index);
  // The CPU's come first: "cpu:0", "cuda:0".
  std::string Device(int index) const;
  std::string WorkerId(int index) const;

  const WorkerProcessesOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Subprocess>> processes_;  // guarded by mutex_; those that run
  bool stopping_ = false;                                         // guarded by mutex_
  std::vector<std::thread> keepers_;
  std::thread watcher_;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_WORKER_PROCESSES_H_
