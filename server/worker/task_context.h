#ifndef PREHEAT_SERVER_WORKER_TASK_CONTEXT_H_
#define PREHEAT_SERVER_WORKER_TASK_CONTEXT_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/reference/inputs/inputs.h"
#include "proto/preheat/v1/pool.pb.h"

namespace preheat::worker {

// What a task sees of the server while it runs. Functions may block on the network and may be called from several
// threads.
struct TaskContext {
  v1::Toolchain toolchain;
  std::function<void(absl::string_view stage, double fraction, absl::string_view detail)> progress;
  // Tells the key; true: nobody has or makes the artifact, go on and compile. False also when the server went away.
  std::function<bool(const std::string& key, const std::map<std::string, std::string>& fields)> announce_key;
  std::function<std::map<std::string, std::string>(const std::vector<std::string>& keys)> lookup_kernels;
  std::function<void(const std::map<std::string, std::string>& objects)> publish_kernels;
  std::function<std::map<std::string, std::string>(const std::vector<std::string>& keys)> lookup_tuning;
  const std::atomic<bool>* cancelled = nullptr;
  int64_t memory_bytes = 0;  // that the worker may hold before it is ended; 0: any number

  // What the inputs of a program that is run here may have: each is held twice at least, as it was made and as eager in
  // float64 or the artifact has it.
  int64_t InputBytes() const {
    const int64_t most = reference::InputOptions().max_bytes;
    return memory_bytes > 0 ? std::min(memory_bytes / 2, most) : most;
  }
};

}  // namespace preheat::worker

#endif  // PREHEAT_SERVER_WORKER_TASK_CONTEXT_H_
