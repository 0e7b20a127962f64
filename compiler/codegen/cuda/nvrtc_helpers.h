#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_NVRTC_HELPERS_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_NVRTC_HELPERS_H_

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/cuda/nvrtc.h"
#include "compiler/support/subprocess.h"

namespace preheat::codegen {

// A process of its own that compiles one kernel after another. Within one process NVRTC's threads wait for each other's
// memory: on 16 cores 16 threads took 0.4 of one thread's time, 8 processes of two threads a tenth. Not for several
// threads at once; the process ends with the object.
class NvrtcHelper {
 public:
  // Starts `program` and waits until it has loaded NVRTC. Null where it is not there or has another version.
  static std::unique_ptr<NvrtcHelper> Start(const std::string& program, const std::string& version);
  ~NvrtcHelper();
  NvrtcHelper(const NvrtcHelper&) = delete;
  NvrtcHelper& operator=(const NvrtcHelper&) = delete;

  // Nothing where the kernel does not compile or the process has ended: NVRTC of this process has the words for it.
  std::optional<Cubin> Compile(const std::string& source, const std::vector<std::string>& flags);
  bool alive() const { return alive_; }
  pid_t pid() const { return process_->pid(); }

 private:
  NvrtcHelper(int socket, std::unique_ptr<Subprocess> process) : socket_(socket), process_(std::move(process)) {}

  const int socket_;
  const std::unique_ptr<Subprocess> process_;
  bool alive_ = true;
};

// Those that are idle. Thread-safe. One that has ended is not replaced.
class NvrtcHelpers {
 public:
  // Of this process: its first call has them started, by a thread of its own: preheat-nvrtc beside this program, one a
  // processor and at most 16, none where there are less than four processors. Those that wait for NVRTC to load take
  // no part yet.
  static NvrtcHelpers& OfProcess();

  void Start(const std::string& program, int count);
  std::unique_ptr<NvrtcHelper> Take();  // null: all are at work
  void Give(std::unique_ptr<NvrtcHelper> helper);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<NvrtcHelper>> idle_;  // guarded by mutex_
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_NVRTC_HELPERS_H_
