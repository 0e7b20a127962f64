#include "compiler/reference/reference.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/reference/aten_call.h"
#include "compiler/reference/gpu_attention.h"
#include "compiler/reference/tensors.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::reference {
namespace {

using capture::AtenNode;
using capture::AtenProgram;

absl::Status Malformed(const std::string& what) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "malformed_program", .message = what});
}

std::string Where(int index, const AtenNode& node) { return absl::StrCat("node ", index, " (", node.op, ")"); }

void SeedGenerator(uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

// A program made ready: operators found, fixed arguments converted, last uses known.
class Walker {
 public:
  static absl::StatusOr<Walker> Make(const AtenProgram& program, const ReferenceOptions& options) {
    Walker walker(program, options);
    for (size_t i = 0; i < program.nodes.size(); ++i) {
      absl::Status status = walker.Prepare(program.nodes[i]);
      if (!status.ok()) return WithWhere(status, Where(i, program.nodes[i]));
    }
    RETURN_IF_ERROR(walker.FindLastUses());
    return walker;
  }

  // Tensors for the inputs and constants, and the symbols they bind.
  absl::Status Load(absl::Span<const HostTensor> inputs) {
    if (inputs.size() != program_.inputs.size()) {
      return Malformed(absl::StrCat(inputs.size(), " inputs given, the program has ", program_.inputs.size()));
    }
    for (size_t i = 0; i < inputs.size(); ++i) RETURN_IF_ERROR(LoadInput(i, inputs[i]));
    for (const capture::ConstantData& constant : program_.constants) RETURN_IF_ERROR(LoadConstant(constant));
    start_ = values_;
    return absl::OkStatus();
  }

  absl::Status Walk() {
    SeedGenerator(options_.seed);
    return WalkFrom(start_);
  }

  // As a block of another program, which gives it tensors and takes tensors.
  absl::StatusOr<std::vector<c10::IValue>> WalkBlock(const std::vector<c10::IValue>& inputs) {
    values_.assign(program_.values.size(), c10::IValue());
    for (size_t i = 0; i < inputs.size(); ++i) values_[program_.inputs[i].value] = inputs[i];
    for (const capture::ConstantData& constant : program_.constants) RETURN_IF_ERROR(LoadConstant(constant));
    RETURN_IF_ERROR(WalkFrom(values_));
    std::vector<c10::IValue> outputs;
    for (const capture::OutputSpec& output : program_.outputs) outputs.push_back(ValueOf(output.value));
    return outputs;
  }

  absl::Status WalkFrom(std::vector<c10::IValue> start) {
    values_ = std::move(start);
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (options_.cancelled != nullptr && *options_.cancelled) return absl::CancelledError("cancelled");
      const AtenNode& node = program_.nodes[i];
      absl::Status status = Step(node, calls_[i]);
      if (!status.ok()) return WithWhere(status, Where(i, node));
      for (int id : frees_[i]) values_[id] = c10::IValue();
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<HostTensor>> Outputs() const {
    std::vector<HostTensor> out;
    for (const capture::OutputSpec& spec : program_.outputs) {
      if (spec.value < 0) {
        out.emplace_back();
        continue;
      }
      c10::IValue value = ValueOf(spec.value);
      if (value.isNone()) return Malformed(absl::StrCat("output value ", spec.value, " was never computed"));
      at::Tensor tensor = value.isTensor() ? value.toTensor() : at::scalar_tensor(value.toScalar(), at::kLong);
      if (!FromTorch(tensor.scalar_type())) return Malformed("an output has a type that Preheat does not know");
      out.push_back(TensorToHost(tensor));
    }
    return out;
  }

 private:
  struct Prepared {
    std::optional<AtenCall> call;  // nothing: control flow
    std::vector<Walker> blocks;
  };

  Walker(const AtenProgram& program, const ReferenceOptions& options)
      : program_(program), options_(options), symbols_(options.symbols), values_(program.values.size()) {}

  std::vector<ir::DType> ResultTypes(const AtenNode& node) const {
    std::vector<ir::DType> types;
    for (int id : node.results) {
      if (id >= 0 && !program_.values[id].is_size) types.push_back(program_.values[id].type.tensor.dtype);
    }
    return types;
  }

  absl::Status FindLastUses() {
    std::vector<int> last(program_.values.size(), -1);
    for (size_t i = 0; i < calls_.size(); ++i) {
      for (int id : calls_[i].call ? calls_[i].call->Operands() : ControlOperands(program_.nodes[i])) {
        if (id < 0 || id >= static_cast<int>(last.size()))
          return Malformed(absl::StrCat("value ", id, " does not exist"));
        last[id] = i;
      }
      for (int id : program_.nodes[i].results) {
        if (id >= 0) last[id] = std::max<int>(last[id], i);
      }
    }
    for (const capture::OutputSpec& spec : program_.outputs) {
      if (spec.value >= 0) last[spec.value] = -1;
    }
    frees_.resize(calls_.size());
    for (size_t id = 0; id < last.size(); ++id) {
      if (last[id] >= 0) frees_[last[id]].push_back(id);
    }
    return absl::OkStatus();
  }

  // --- Control flow ---

  absl::Status Prepare(const AtenNode& node) {
    Prepared prepared;
    for (const AtenProgram& block : node.blocks) {
      ASSIGN_OR_RETURN(Walker walker, Make(block, options_));
      prepared.blocks.push_back(std::move(walker));
    }
    if (!node.IsControl()) {
      ASSIGN_OR_RETURN(AtenCall call, AtenCall::Make(node.op, node.args, ResultTypes(node), options_.float64));
      prepared.call = std::move(call);
    }
    calls_.push_back(std::move(prepared));
    return absl::OkStatus();
  }

  // The condition first. REQUIRES: control flow as CheckProgram demands it.
  static std::vector<int> ControlOperands(const AtenNode& node) {
    std::vector<int> ids = {std::get<capture::ValueRef>(node.args[0].value).id};
    for (const auto& operand : std::get<std::vector<std::optional<capture::ValueRef>>>(node.args[1].value)) {
      ids.push_back(operand->id);
    }
    return ids;
  }

  absl::StatusOr<std::vector<c10::IValue>> RunControl(const AtenNode& node, std::vector<Walker>& blocks) const {
    std::vector<c10::IValue> operands;
    for (int id : ControlOperands(node)) operands.push_back(ValueOf(id));
    bool holds = operands[0].toTensor().item().toBool();
    operands.erase(operands.begin());
    if (node.op == capture::kIfOp) return blocks[holds ? 0 : 1].WalkBlock(operands);
    while (holds) {
      if (options_.cancelled != nullptr && *options_.cancelled) return absl::CancelledError("cancelled");
      ASSIGN_OR_RETURN(std::vector<c10::IValue> next, blocks[0].WalkBlock(operands));
      holds = next[0].toTensor().item().toBool();
      std::move(next.begin() + 1, next.end(), operands.begin());
    }
    operands.resize(node.results.size());
    return operands;
  }

  // A size that is a symbol alone takes the value it meets first.
  void Bind(const ir::Expr& e, int64_t value) {
    if (auto symbol = e.symbol()) symbols_.emplace(*symbol, value);
  }
  void BindShape(int id, const at::Tensor& tensor) {
    const std::vector<ir::Expr>& shape = program_.values[id].type.tensor.shape;
    if (static_cast<int64_t>(shape.size()) != tensor.dim()) return;
    for (size_t d = 0; d < shape.size(); ++d) Bind(shape[d], tensor.size(d));
  }

  absl::Status LoadInput(size_t index, const HostTensor& input) {
    const int id = program_.inputs[index].value;
    at::Tensor tensor = TensorFromHost(input);
    if (program_.values[id].is_size) {
      if (tensor.numel() != 1) return Malformed(absl::StrCat("input ", index, " is a size: one number is needed"));
      const int64_t size = tensor.item().toLong();
      Bind(program_.values[id].expr, size);
      values_[id] = size;
      return absl::OkStatus();
    }
    values_[id] = options_.float64 ? tensor.to(Widened(tensor.scalar_type())) : tensor;
    BindShape(id, tensor);
    return absl::OkStatus();
  }

  absl::Status LoadConstant(const capture::ConstantData& constant) {
    const capture::AtenType& type = program_.values[constant.value].type;
    std::vector<int64_t> sizes;
    for (const ir::Expr& e : type.tensor.shape) sizes.push_back(e.constant().value_or(0));
    HostTensor host = MakeTensor(type.tensor.dtype, sizes);
    if (host.bytes.size() != constant.data.size()) return Malformed("a constant's bytes do not fit its type");
    host.bytes = constant.data;
    at::Tensor tensor = TensorFromHost(host);
    values_[constant.value] = options_.float64 ? tensor.to(Widened(tensor.scalar_type())) : tensor;
    return absl::OkStatus();
  }

  int64_t SymbolValue(const std::string& name) const {
    auto found = symbols_.find(name);
    TORCH_CHECK(found != symbols_.end(), "symbol ", name, " has no value");
    return found->second;
  }

  c10::IValue ValueOf(int id) const {
    if (program_.values[id].is_size && values_[id].isNone()) {
      return program_.values[id].expr.Evaluate([this](const std::string& name) { return SymbolValue(name); });
    }
    return values_[id];
  }

  absl::Status Step(const AtenNode& node, Prepared& prepared) {
    const CallScope scope{[this](int id) { return ValueOf(id); },
                          [this](const std::string& name) { return SymbolValue(name); }};
    ASSIGN_OR_RETURN(std::vector<c10::IValue> results,
                     prepared.call ? prepared.call->Run(scope) : RunControl(node, prepared.blocks));
    if (results.size() < node.results.size()) {
      return Malformed(absl::StrCat(node.results.size(), " results declared, ", results.size(), " computed"));
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      const int id = node.results[i];
      if (id < 0) continue;
      if (program_.values[id].is_size && results[i].isInt()) Bind(program_.values[id].expr, results[i].toInt());
      if (results[i].isTensor()) BindShape(id, results[i].toTensor());
      values_[id] = std::move(results[i]);
    }
    return absl::OkStatus();
  }

  const AtenProgram& program_;
  const ReferenceOptions& options_;
  std::map<std::string, int64_t> symbols_;
  std::vector<c10::IValue> values_, start_;  // by value id; start_: inputs and constants alone
  std::vector<Prepared> calls_;              // one a node
  std::vector<std::vector<int>> frees_;      // by node: values that nothing needs after it
};

// Torch throws; nothing of that leaves this file.
template <typename Fn>
auto Guarded(const Fn& fn) -> decltype(fn()) {
  try {
    return fn();
  } catch (const c10::Error& e) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.kind = "reference_failed", .message = e.what_without_backtrace()});
  } catch (const std::exception& e) {
    return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "reference_failed", .message = e.what()});
  }
}

// Torch's generator and thread count belong to the process: one run at a time.
std::mutex& RunMutex() {
  static std::mutex mutex;
  return mutex;
}

absl::StatusOr<Timed> Measure(const AtenProgram& program, absl::Span<const HostTensor> inputs,
                              const ReferenceOptions& options, int repeat) {
  std::lock_guard<std::mutex> lock(RunMutex());
  at::NoGradGuard no_grad;
  if (options.threads > 0) at::set_num_threads(options.threads);
  ASSIGN_OR_RETURN(Walker walker, Walker::Make(program, options));
  RETURN_IF_ERROR(walker.Load(inputs));
  RETURN_IF_ERROR(walker.Walk());
  Timed timed;
  std::vector<double> times;
  for (int i = 0; i < repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(walker.Walk());
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  if (!times.empty()) {
    timed.median_ms = times[times.size() / 2];
    timed.p99_ms = times[std::min(times.size() - 1, times.size() * 99 / 100)];
  }
  ASSIGN_OR_RETURN(timed.outputs, walker.Outputs());
  return timed;
}

}  // namespace

absl::StatusOr<std::vector<HostTensor>> RunReference(const AtenProgram& program, absl::Span<const HostTensor> inputs,
                                                     const ReferenceOptions& options) {
  DefineGpuAttention();
  return Guarded([&]() -> absl::StatusOr<std::vector<HostTensor>> {
    ASSIGN_OR_RETURN(Timed timed, Measure(program, inputs, options, 0));
    return std::move(timed.outputs);
  });
}

absl::StatusOr<Timed> TimeReference(const AtenProgram& program, absl::Span<const HostTensor> inputs,
                                    const ReferenceOptions& options, int repeat) {
  return Guarded([&] { return Measure(program, inputs, options, std::max(repeat, 1)); });
}

}  // namespace preheat::reference
