#include "kernels/device/cuda_memory.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cuda {
namespace {

constexpr int64_t kGranule = int64_t{2} << 20;  // as much as the driver hands out at least

std::mutex g_mutex;
MemorySource g_source;  // guarded by g_mutex

MemorySource Source() {
  std::lock_guard<std::mutex> lock(g_mutex);
  return g_source;
}

class StreamWorkspace : public Workspace {
 public:
  StreamWorkspace(const Driver& driver, Context context, int ordinal, Stream stream)
      : driver_(driver), context_(context), ordinal_(ordinal), stream_(stream) {}

  absl::StatusOr<std::shared_ptr<char>> Reserve(int64_t bytes) override {
    if (current_ != nullptr && bytes <= bytes_) return current_;
    const int64_t rounded = (std::max<int64_t>(bytes, 1) + kGranule - 1) / kGranule * kGranule;
    current_.reset();  // its memory may be what the larger piece needs
    bytes_ = 0;
    ASSIGN_OR_RETURN(current_, Allocate(rounded));
    bytes_ = rounded;
    return current_;
  }

 private:
  absl::StatusOr<std::shared_ptr<char>> Allocate(int64_t bytes) const {
    const ContextScope scope(driver_, context_);
    if (const MemorySource source = Source(); source.allocate != nullptr) {
      void* memory = source.allocate(source.context, bytes, ordinal_, stream_);
      if (memory == nullptr) return TooLittle(bytes);
      return std::shared_ptr<char>(static_cast<char*>(memory), [source](char* p) { source.free(source.context, p); });
    }
    DevicePointer memory = 0;
    RETURN_IF_ERROR(Check(driver_, driver_.MemAlloc(&memory, static_cast<size_t>(bytes)),
                          absl::StrCat("allocating ", bytes, " bytes of workspace on the GPU")));
    return std::shared_ptr<char>(reinterpret_cast<char*>(memory), [this](char* p) {
      const ContextScope scope(driver_, context_);
      driver_.MemFree(reinterpret_cast<DevicePointer>(p));
    });
  }

  static absl::Status TooLittle(int64_t bytes) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     {.kind = "out_of_memory",
                      .message = absl::StrCat("there are no ", bytes, " bytes of workspace left on the GPU"),
                      .where = "",
                      .fix = "run smaller batches, or fewer programs on this GPU at once"});
  }

  const Driver& driver_;
  const Context context_;
  const int ordinal_;
  const Stream stream_;
  std::shared_ptr<char> current_;  // guarded by mutex
  int64_t bytes_ = 0;              // guarded by mutex
};

}  // namespace

void SetMemorySource(const MemorySource& source) {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_source = source;
}

Workspace* WorkspaceOf(const Driver& driver, Context context, int ordinal, Stream stream) {
  static auto* workspaces = new std::map<std::pair<Context, Stream>, std::unique_ptr<Workspace>>();
  std::lock_guard<std::mutex> lock(g_mutex);
  std::unique_ptr<Workspace>& workspace = (*workspaces)[{context, stream}];
  if (workspace == nullptr) workspace = std::make_unique<StreamWorkspace>(driver, context, ordinal, stream);
  return workspace.get();
}

}  // namespace preheat::cuda
