#ifndef PREHEAT_SERVER_WORK_QUEUE_H_
#define PREHEAT_SERVER_WORK_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace preheat::server {

// A few threads for what must not hold up the thread that learned of it: the replies to everybody who waited for one
// artifact are made here, not on the stream of the worker that has sent it. Safe from several threads at once.
class WorkQueue {
 public:
  explicit WorkQueue(int threads);
  // Does what was posted before, then ends.
  ~WorkQueue();

  void Post(std::function<void()> work);

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;  // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_WORK_QUEUE_H_
