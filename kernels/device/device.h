#ifndef PREHEAT_KERNELS_DEVICE_DEVICE_H_
#define PREHEAT_KERNELS_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace preheat {

// Code that a device can run. Functions found in it are valid as long as it lives.
class LoadedCode {
 public:
  virtual ~LoadedCode() = default;
  // The address of a function (CPU) or its handle (CUfunction). NOT_FOUND names the symbol.
  virtual absl::StatusOr<void*> Find(const char* symbol) const = 0;
};

// Bytes of a shared object or a cubin, with the SHA-256 that they must have.
struct CodeImage {
  absl::string_view digest;
  absl::string_view bytes;
};

// One launch. Which fields count is the device's: ranges on a CPU, grid and block on a GPU.
struct Launch {
  void* function = nullptr;
  void* const* buffers = nullptr;
  size_t num_buffers = 0;  // GPU: on a CPU the function knows
  const int64_t* scalars = nullptr;
  size_t num_scalars = 0;
  int32_t* error = nullptr;
  int64_t extent = 0;            // items; CPU: the function is called on ranges of [0, extent)
  int64_t grain = 1;             // CPU: least iterations worth a thread
  char* scratch = nullptr;       // `scratch_bytes` for each of ThreadsFor(extent, grain) threads; GPU: for each block
  int64_t scratch_bytes = 0;     // CPU: for one thread, a multiple of 64
  int64_t shared_bytes = 0;      // GPU: dynamic shared memory
  uint32_t grid[3] = {1, 1, 1};  // GPU
  uint32_t block[3] = {1, 1, 1};
};

// An order of launches; null is the device's default. On a CPU there is but one, and launches are done when they
// return.
using Stream = void*;

// A point in a stream.
class Event {
 public:
  virtual ~Event() = default;
};

// While it lives, what is enqueued behind it waits.
class Hold {
 public:
  virtual ~Hold() = default;
};

// Launches put together once and then started as one. One thread at a time.
class LaunchGraph {
 public:
  using Enqueue = absl::FunctionRef<absl::Status(Stream)>;
  using Numbers = absl::Span<const size_t>;
  virtual ~LaunchGraph() = default;

  // Adds a launch, or whatever `enqueue` puts on the stream that it is called with, as a node that begins when those
  // of the numbers `after` are done. Nodes are numbered from 0 in the order in which they are added.
  virtual absl::Status AddLaunch(const struct Launch& launch, Numbers after) = 0;
  virtual absl::Status AddCapture(Enqueue enqueue, Numbers after) = 0;
  // After the last one.
  virtual absl::Status Finish() = 0;

  // Replaces node `number`, for starts from now on: another launch of a function, the same calls on other memory.
  virtual absl::Status SetLaunch(size_t number, const struct Launch& launch) = 0;
  virtual absl::Status SetCapture(size_t number, Enqueue enqueue) = 0;

  virtual absl::Status Start(Stream stream) = 0;
};

// Memory that everything enqueued on one stream uses in turn: what a run leaves there is gone when the next one starts.
class Workspace {
 public:
  virtual ~Workspace() = default;
  // Held while a run is enqueued, so that two threads' runs follow each other.
  std::mutex mutex;
  // At least `bytes`, aligned to 256. A larger piece takes the place of the one before, which lives as long as somebody
  // holds it. RESOURCE_EXHAUSTED "out_of_memory". REQUIRES: `mutex` is held.
  virtual absl::StatusOr<std::shared_ptr<char>> Reserve(int64_t bytes) = 0;
};

// What the runtime needs of a device, shaped after the CUDA driver's calls. One object a device; every function may be
// called from several threads at once.
class Device {
 public:
  virtual ~Device() = default;
  virtual absl::string_view name() const = 0;

  // Memory aligned to 64 bytes, contents undefined. RESOURCE_EXHAUSTED "out_of_memory" names the size.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  virtual void Free(void* memory) = 0;

  // Whether the host reads and writes the device's memory as its own, and launches are done when they return.
  virtual bool is_host() const { return true; }
  virtual int ordinal() const { return 0; }
  // From here on libraries that the calling thread calls work on this device; true: Leave restores what was before.
  virtual bool Enter() { return false; }
  virtual void Leave() {}
  // A little memory that host and device both address. Contents undefined.
  virtual absl::StatusOr<void*> AllocateShared(int64_t bytes) { return Allocate(bytes); }
  virtual void FreeShared(void* memory) { Free(memory); }
  // Between host and device or within it; done, and everything before it on the device, when it returns.
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }

  // Checks the digest and loads. The same digest loaded twice is loaded once.
  virtual absl::StatusOr<std::shared_ptr<const LoadedCode>> Load(const CodeImage& image) = 0;

  // Enqueues (CPU: does) one launch.
  virtual absl::Status Launch(const struct Launch& launch, Stream stream) = 0;

  // Null where launches cost nothing that a graph would save.
  virtual absl::StatusOr<std::unique_ptr<LaunchGraph>> NewGraph() { return std::unique_ptr<LaunchGraph>(); }
  // Whether the caller puts what is enqueued on this stream into a graph of his own.
  virtual bool IsCapturing(Stream) { return false; }
  // The stream's; null on a host. It lives as long as the process.
  virtual Workspace* WorkspaceOf(Stream) { return nullptr; }

  virtual absl::StatusOr<std::unique_ptr<Event>> Record(Stream stream) = 0;
  // Seconds from one event to a later one; waits until both have happened.
  virtual absl::StatusOr<double> SecondsBetween(const Event& first, const Event& second) = 0;
  // Lets what follows on the stream wait until the hold ends, a tenth of a second at most, so that it then runs without
  // the host's pauses between: for timing. Null where there is nothing to hold. Not for more work than the device
  // queues (some hundred launches).
  virtual absl::StatusOr<std::unique_ptr<Hold>> HoldBack(Stream) { return std::unique_ptr<Hold>(); }
  virtual absl::Status Synchronize(Stream stream) = 0;
};

// Enters a device for as long as it lives.
class DeviceScope {
 public:
  explicit DeviceScope(Device& device) : device_(device), entered_(device.Enter()) {}
  ~DeviceScope() {
    if (entered_) device_.Leave();
  }
  DeviceScope(const DeviceScope&) = delete;

 private:
  Device& device_;
  const bool entered_;
};

}  // namespace preheat

#endif  // PREHEAT_KERNELS_DEVICE_DEVICE_H_
