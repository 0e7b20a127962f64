#ifndef PREHEAT_KERNELS_LIBRARY_CUDA_CUDNN_GRAPH_H_
#define PREHEAT_KERNELS_LIBRARY_CUDA_CUDNN_GRAPH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/library/call.h"
#include "kernels/library/cuda/algorithm.h"
#include "kernels/library/cuda/cudnn_api.h"

namespace preheat::library::cudnn {

// Numbers of cudnn_graph.h.
enum DataType { kFloat = 0, kDouble = 1, kHalf = 2, kInt32 = 4, kBFloat16 = 9, kBool = 11 };
enum PointwiseMode {
  kAdd = 0,
  kMul = 1,
  kDiv = 6,
  kSub = 9,
  kExp = 13,
  kLog = 15,
  kIdentity = 21,
  kRelu = 100,
  kGreaterOrEqual = 303,
  kIndex = 501,  // of a dimension
  kSelect = 601
};
enum ReductionMode { kSum = 0, kMax = 3 };

// UNIMPLEMENTED "unsupported_library_call".
absl::Status Unsupported(std::string message);

// UNIMPLEMENTED for all but floats.
absl::StatusOr<DataType> DataTypeOf(int32_t dtype);

// What a plan is.
struct Choice {
  int64_t engine = -1;    // cuDNN's number for it
  int64_t workspace = 0;  // bytes
  bool compiled = false;  // it compiles a kernel when it is made
};

// A plan that is ready to run, and what it was made of.
struct Plan {
  explicit Plan(const Api& api) : plan(api, kExecutionPlan) {}
  Descriptor plan;
  Choice choice;
};

// Where plans are made: on the device of a handle, or for one that is only described.
struct Place {
  void* handle = nullptr;
  const Descriptor* device = nullptr;
};

// Describes a device as cuDNN writes devices down (JSON).
absl::StatusOr<Descriptor> DescribeDevice(const Api& api, absl::string_view json);

// Which of cuDNN's plans for a graph is taken: the first of its heuristics that can be made ready, behind
// `algorithm.rank` others; one that compiles a kernel only where there is no other.
struct Wish {
  Algorithm algorithm;
  bool exact_float = false;  // no engine that rounds operands to TF32 or less
  std::string what;          // for the error
};

// A graph of operations on tensors. Tensors are handles that live as long as the graph. Not thread-safe.
class Graph {
 public:
  explicit Graph(const Api& api) : api_(api) {}

  using Tensor = const void*;

  // With memory: found by `uid` when the plan runs. `alignment`: bytes that its address is a multiple of.
  absl::StatusOr<Tensor> InMemory(int64_t uid, const TensorSpec& t, DataType type, int64_t alignment = 16);
  // Without. Row-major where no strides are given.
  absl::StatusOr<Tensor> Virtual(const TensorSpec& like, DataType type);
  // A number that the plan reads on the host when it is started: four dimensions of one element.
  absl::StatusOr<Tensor> Number(int64_t uid);

  // y = mode(x, other); kSelect: y = condition ? x : other; kIndex: the position along `axis` of x.
  struct PointwiseArgs {
    Tensor other = nullptr, condition = nullptr;
    DataType compute = kFloat;
    int64_t axis = -1;
  };
  absl::Status Pointwise(PointwiseMode mode, Tensor x, Tensor y, const PointwiseArgs& args);
  absl::Status MatMul(Tensor a, Tensor b, Tensor c);
  // Over the dimensions that are one in y.
  absl::Status Reduce(ReductionMode mode, Tensor x, Tensor y);
  absl::Status Reshape(Tensor x, Tensor y);
  // An operation of another kind, with the descriptors that it refers to.
  absl::Status Add(Descriptor operation, std::vector<Descriptor> parts, absl::string_view what);

  // UNIMPLEMENTED "unsupported_library_call": no engine takes it.
  absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(const Place& place, const Wish& wish) const;

 private:
  absl::StatusOr<Tensor> Keep(Descriptor tensor);
  // An operation that refers to what it does by `attribute`.
  absl::Status AddKind(Descriptor kind, int attribute, Descriptor operation, absl::string_view what);

  const Api& api_;
  int64_t next_virtual_ = 1000;
  std::vector<Descriptor> parts_, operations_;
};

// A plan in the bytes of Serialize; null when this cuDNN does not take them.
std::shared_ptr<const Plan> RestorePlan(const Api& api, const Place& place, const std::string& bytes);
// Empty when the plan has no such form.
std::string Serialize(const Api& api, const Plan& plan);

// The plan that `make` gives on the handle's device, made once in a process for each `problem`, with the handle held.
absl::StatusOr<std::shared_ptr<const Plan>> PlanOnce(
    Handle& handle, const std::string& problem,
    const std::function<absl::StatusOr<std::shared_ptr<const Plan>>(const Place& place)>& make);

// Enqueues the plan on `stream`. INTERNAL "cudnn_error", naming `what`.
struct Addresses {
  std::vector<int64_t> uids;
  std::vector<const void*> pointers;
  void Add(int64_t uid, const void* pointer) { uids.push_back(uid), pointers.push_back(pointer); }
};
absl::Status Execute(const Api& api, Handle& handle, const Plan& plan, const Addresses& addresses, void* workspace,
                     void* stream, absl::string_view what);

}  // namespace preheat::library::cudnn

#endif  // PREHEAT_KERNELS_LIBRARY_CUDA_CUDNN_GRAPH_H_
