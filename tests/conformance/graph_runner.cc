#include "tests/conformance/graph_runner.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/target.h"
#include "compiler/ir/evaluate.h"
#include "compiler/support/status_macros.h"
#include "kernels/device/cuda_device.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat::testing {

using ir::HostTensor;

namespace {

absl::Status Take(preheat_status* status) {
  if (status == nullptr) return absl::OkStatus();
  absl::Status result =
      absl::InternalError(absl::StrCat(preheat_status_code(status), " ", preheat_status_kind(status), ": ",
                                       preheat_status_message(status), " ", preheat_status_where(status)));
  preheat_status_free(status);
  return result;
}

constexpr int64_t kBehind = 1 << 16;  // bytes behind a tensor on a GPU that nobody may write
constexpr char kUntouched = 0x3c;

// Memory of a tensor that may have holes, between two pages that nobody may touch: it ends where the second one begins,
// but for what a multiple of 16 leaves. On a GPU it ends before bytes that are looked at afterwards.
struct Memory {
  std::vector<int64_t> sizes, strides;
  char* pages = nullptr;
  size_t mapped = 0;
  int64_t reach = 0;  // bytes from `data` on
  char* data = nullptr;
  Device* device = nullptr;  // a GPU where a copy lies
  void* copy = nullptr;
  void* allocated = nullptr;
  ir::DType dtype = ir::DType::kF32;

  Memory(ir::DType type, std::vector<int64_t> shape, std::vector<int64_t> steps)
      : sizes(std::move(shape)), strides(std::move(steps)), dtype(type) {
    int64_t extent = 1;
    for (size_t d = 0; d < sizes.size(); ++d) extent += std::max<int64_t>(0, sizes[d] - 1) * strides[d];
    reach = (std::max<int64_t>(1, extent) * ir::DTypeSize(dtype) + 15) / 16 * 16;
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t usable = (static_cast<size_t>(reach) + page - 1) / page * page;
    mapped = usable + 2 * page;
    pages = static_cast<char*>(mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (pages == MAP_FAILED || mprotect(pages + page, usable, PROT_READ | PROT_WRITE) != 0) std::abort();
    std::memset(pages + page, 0x7b, usable);
    data = pages + page + usable - reach;
  }
  ~Memory() {
    if (device != nullptr) device->Free(allocated);
    munmap(pages, mapped);
  }
  Memory(const Memory&) = delete;

  int64_t Reach() const { return reach; }
  // `elsewhere`: not where it lay before, and `shift` bytes behind what is aligned.
  absl::Status ToDevice(Device* gpu, bool elsewhere, int64_t shift) {
    if (gpu == nullptr) return absl::OkStatus();
    if (device == nullptr || elsewhere) {
      ASSIGN_OR_RETURN(void* place, gpu->Allocate(Reach() + shift + kBehind));
      if (device != nullptr) gpu->Free(allocated);
      allocated = place;
      copy = static_cast<char*>(place) + shift;
      device = gpu;
    }
    const std::string untouched(kBehind, kUntouched);
    RETURN_IF_ERROR(device->Copy(static_cast<char*>(copy) + Reach(), untouched.data(), kBehind));
    return device->Copy(copy, data, Reach());
  }
  absl::Status FromDevice() {
    if (device == nullptr) return absl::OkStatus();
    std::string behind(kBehind, '\0');
    RETURN_IF_ERROR(device->Copy(behind.data(), static_cast<char*>(copy) + Reach(), kBehind));
    const size_t at = behind.find_first_not_of(kUntouched);
    if (at != std::string::npos)
      return absl::InternalError(absl::StrCat("written ", at, " bytes behind a tensor's end"));
    return device->Copy(data, copy, Reach());
  }

  char* At(absl::Span<const int64_t> index) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
    return data + at * ir::DTypeSize(dtype);
  }
  preheat_tensor View() {
    return {device != nullptr ? copy : data,
            static_cast<int32_t>(dtype),
            static_cast<int32_t>(sizes.size()),
            sizes.data(),
            strides.data(),
            device != nullptr ? PREHEAT_CUDA : PREHEAT_CPU,
            0};
  }
};

int64_t Shift(const Memory& memory, bool unaligned) { return unaligned ? ir::DTypeSize(memory.dtype) : 0; }

void Fill(Memory& memory, const HostTensor& tensor) {
  int64_t size = ir::DTypeSize(tensor.dtype);
  ir::ForEachPosition(tensor.shape, [&](int64_t i, absl::Span<const int64_t> at) {
    std::memcpy(memory.At(at), &tensor.data[i * size], size);
  });
}

HostTensor Gather(Memory& memory) {
  HostTensor tensor = HostTensor::Zeros(memory.dtype, memory.sizes);
  int64_t size = ir::DTypeSize(memory.dtype);
  ir::ForEachPosition(tensor.shape, [&](int64_t i, absl::Span<const int64_t> at) {
    std::memcpy(&tensor.data[i * size], memory.At(at), size);
  });
  return tensor;
}

absl::StatusOr<std::vector<int64_t>> Concrete(const std::vector<ir::Expr>& exprs, const ir::SymbolValues& symbols) {
  std::vector<int64_t> values;
  for (const ir::Expr& e : exprs) {
    ASSIGN_OR_RETURN(int64_t value, ir::ConcreteValue(e, symbols));
    values.push_back(value);
  }
  return values;
}

}  // namespace

absl::StatusOr<GraphRunner> GraphRunner::Make(ir::Graph graph, const std::string& target,
                                              const codegen::Schedules& schedules) {
  GraphRunner runner;
  runner.canonical_.graph = std::move(graph);
  CompileOptions options;
  options.target = target;
  options.schedules = schedules;
  ASSIGN_OR_RETURN(runner.artifact_, Compile(runner.canonical_, options));
  if (DeviceKindOf(target) == DeviceKind::kCuda) {
    ASSIGN_OR_RETURN(runner.gpu_, NewCudaDevice(target));
  }
  return runner;
}

GraphRunner GraphRunner::Of(ir::Graph graph, Artifact artifact) {
  GraphRunner runner;
  runner.canonical_.graph = std::move(graph);
  runner.artifact_ = std::move(artifact);
  return runner;
}

absl::StatusOr<std::vector<HostTensor>> GraphRunner::Run(const std::vector<HostTensor>& inputs,
                                                         const ir::SymbolValues& symbols, bool unaligned,
                                                         int gpu_runs) const {
  std::vector<preheat_blob> blobs;
  for (const auto& [digest, bytes] : artifact_.code) blobs.push_back({digest.c_str(), bytes.data(), bytes.size()});
  preheat_load_options load{};
  preheat_executable* executable = nullptr;
  RETURN_IF_ERROR(Take(preheat_executable_load(artifact_.plan.data(), artifact_.plan.size(), blobs.data(), blobs.size(),
                                               &load, &executable)));
  std::unique_ptr<preheat_executable, decltype(&preheat_executable_release)> own(executable,
                                                                                 preheat_executable_release);
  preheat_allow_tf32_convolutions(0);  // held against the evaluator as float32
  preheat_bind_options bind{};
  preheat_session* session = nullptr;
  RETURN_IF_ERROR(Take(preheat_bind(executable, &bind, &session)));
  std::unique_ptr<preheat_session, decltype(&preheat_session_release)> own_session(session, preheat_session_release);

  std::vector<std::unique_ptr<Memory>> in, out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSIGN_OR_RETURN(std::vector<int64_t> strides, Concrete(graph().inputs()[i].strides, symbols));
    in.push_back(std::make_unique<Memory>(inputs[i].dtype, inputs[i].shape, strides));
    Fill(*in.back(), inputs[i]);
  }
  for (const ir::GraphOutput& output : graph().outputs()) {
    ASSIGN_OR_RETURN(std::vector<int64_t> shape, ir::ConcreteShape(output.value.shape(), symbols));
    ASSIGN_OR_RETURN(std::vector<int64_t> strides, Concrete(output.strides, symbols));
    out.push_back(std::make_unique<Memory>(output.value.dtype(), shape, strides));
  }
  // Each run reports what the kernels of the one before have found.
  for (int run = 0; run < (gpu_ != nullptr ? gpu_runs : 1); ++run) {
    std::vector<preheat_tensor> in_views, out_views;
    for (size_t i = 0; i < in.size(); ++i) {
      RETURN_IF_ERROR(in[i]->ToDevice(gpu_.get(), run >= 2, Shift(*in[i], unaligned && run >= 2)));
      in_views.push_back(in[i]->View());
    }
    for (size_t i = 0; i < out.size(); ++i) {
      RETURN_IF_ERROR(out[i]->ToDevice(gpu_.get(), run >= 2, Shift(*out[i], unaligned && run >= 2)));
      if (graph().outputs()[i].mutates < 0) out_views.push_back(out[i]->View());
    }
    RETURN_IF_ERROR(Take(
        preheat_session_run(session, in_views.data(), in_views.size(), out_views.data(), out_views.size(), nullptr)));
    if (gpu_ != nullptr) RETURN_IF_ERROR(gpu_->Synchronize(nullptr));
  }
  for (const auto& list : {&in, &out}) {
    for (const auto& memory : *list) RETURN_IF_ERROR(memory->FromDevice());
  }
  std::vector<HostTensor> results;
  for (size_t i = 0; i < out.size(); ++i) {
    int mutates = graph().outputs()[i].mutates;
    results.push_back(Gather(mutates < 0 ? *out[i] : *in[mutates]));
  }
  return results;
}

HostTensor RandomTensor(ir::DType dtype, const std::vector<int64_t>& shape, uint64_t seed, int64_t bound) {
  std::mt19937_64 random(seed);
  HostTensor tensor = HostTensor::Zeros(dtype, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (ir::IsFloat(dtype)) {
      tensor.SetFloat(i, std::uniform_real_distribution<double>(-2, 2)(random));
    } else {
      tensor.SetInt(i, static_cast<int64_t>(random() % static_cast<uint64_t>(bound)));
    }
  }
  return tensor;
}

absl::StatusOr<std::vector<HostTensor>> RandomInputs(const ir::Graph& graph, const ir::SymbolValues& symbols,
                                                     uint64_t seed) {
  std::vector<HostTensor> inputs;
  for (const ir::GraphInput& input : graph.inputs()) {
    ASSIGN_OR_RETURN(std::vector<int64_t> shape, ir::ConcreteShape(input.type.shape, symbols));
    inputs.push_back(RandomTensor(input.type.dtype, shape, seed + 977 * inputs.size()));
    if (input.is_size) inputs.back().SetInt(0, symbols.at(input.symbol));
  }
  return inputs;
}

std::string Differ(const HostTensor& got, const HostTensor& want) {
  if (got.dtype != want.dtype || got.shape != want.shape) return "types differ";
  bool floating = ir::IsFloat(want.dtype);
  double relative = want.dtype == ir::DType::kF64   ? 1e-12
                    : want.dtype == ir::DType::kF32 ? 2e-5
                    : want.dtype == ir::DType::kF16 ? 4e-3
                                                    : 3e-2;
  double largest = 0;
  for (int64_t i = 0; floating && i < want.elements(); ++i) {
    if (std::isfinite(want.Float(i))) largest = std::max(largest, std::abs(want.Float(i)));
  }
  for (int64_t i = 0; i < want.elements(); ++i) {
    if (!floating) {
      if (got.Int(i) != want.Int(i)) return absl::StrCat("element ", i, ": ", got.Int(i), ", expected ", want.Int(i));
      continue;
    }
    double a = got.Float(i), b = want.Float(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!(std::abs(a - b) <= relative * (std::abs(b) + 0.1 * largest + 0.5)))
      return absl::StrCat("element ", i, ": ", a, ", expected ", b);
  }
  return "";
}

}  // namespace preheat::testing
