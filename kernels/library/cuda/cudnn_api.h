#ifndef PREHEAT_KERNELS_LIBRARY_CUDA_CUDNN_API_H_
#define PREHEAT_KERNELS_LIBRARY_CUDA_CUDNN_API_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace preheat::library::cudnn {

// The part of cuDNN 9's graph interface that is used here, opened at run time: PREHEAT_CUDNN, what the process has
// loaded (torch brings it), what the linker finds. Numbers are those of cudnn_graph.h, which never change.
struct Api {
  size_t (*version)();
  int (*create)(void** handle);
  int (*set_stream)(void* handle, void* stream);
  int (*create_descriptor)(int type, void** descriptor);
  int (*destroy_descriptor)(void* descriptor);
  int (*finalize)(void* descriptor);
  int (*set)(void* descriptor, int attribute, int type, int64_t count, const void* values);
  int (*get)(void* descriptor, int attribute, int type, int64_t wanted, int64_t* count, void* values);
  int (*execute)(void* handle, void* plan, void* pack);
};

// FAILED_PRECONDITION "no_cudnn".
absl::StatusOr<const Api*> OpenApi();

// A handle of the current CUDA context, made at its first use and kept. Its calls are enqueued under the mutex.
struct Handle {
  void* handle = nullptr;
  std::mutex mutex;
};
absl::StatusOr<Handle*> HandleOfContext(const Api& api);

enum DescriptorType {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristics = 4,
  kExecutionPlan = 5,
  kConvForward = 10,
  kConvBackwardFilter = 11,
  kConvBackwardData = 12,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatMul = 18,
  kMatMulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kReshapeOperation = 31,
  kDeviceProperties = 38
};

enum ValueType {
  kHandleValue = 0,
  kDataTypeValue = 1,
  kBooleanValue = 2,
  kIntValue = 3,
  kFloatValue = 4,
  kDoubleValue = 5,
  kPointerValue = 6,
  kConvolutionModeValue = 7,
  kHeuristicsModeValue = 8,
  kNumericalNoteValue = 11,
  kPointwiseModeValue = 14,
  kDescriptorValue = 15,
  kReductionModeValue = 18,
  kBehaviorNoteValue = 19,
  kTextValue = 24
};

// One of cuDNN's descriptors. The first call that fails is remembered, so that a description reads as a list.
class Descriptor {
 public:
  Descriptor(const Api& api, DescriptorType type) : api_(&api) { Note(api.create_descriptor(type, &raw_)); }
  ~Descriptor() {
    if (raw_ != nullptr) api_->destroy_descriptor(raw_);
  }
  Descriptor(Descriptor&& other) noexcept : api_(other.api_), raw_(other.raw_), result_(other.result_) {
    other.raw_ = nullptr;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;

  void* raw() const { return raw_; }

  void Set(int attribute, ValueType type, int64_t count, const void* values) {
    if (result_ == 0) Note(api_->set(raw_, attribute, type, count, values));
  }
  void SetInt(int attribute, int64_t value) { Set(attribute, kIntValue, 1, &value); }
  void SetInts(int attribute, const std::vector<int64_t>& values) {
    Set(attribute, kIntValue, static_cast<int64_t>(values.size()), values.data());
  }
  void SetEnum(int attribute, ValueType type, int value) { Set(attribute, type, 1, &value); }
  void SetFlag(int attribute, bool value) { Set(attribute, kBooleanValue, 1, &value); }
  void SetPart(int attribute, const Descriptor& part) { Set(attribute, kDescriptorValue, 1, &part.raw_); }

  // OK when every call so far was. `what` names the descriptor in the error.
  absl::Status Finalize(absl::string_view what);

 private:
  void Note(int result) { result_ = result_ == 0 ? result : result_; }

  const Api* api_;
  void* raw_ = nullptr;
  int result_ = 0;
};

}  // namespace preheat::library::cudnn

#endif  // PREHEAT_KERNELS_LIBRARY_CUDA_CUDNN_API_H_
