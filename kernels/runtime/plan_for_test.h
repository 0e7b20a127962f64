#ifndef PREHEAT_KERNELS_RUNTIME_PLAN_FOR_TEST_H_
#define PREHEAT_KERNELS_RUNTIME_PLAN_FOR_TEST_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/artifact/plan_generated.h"
#include "compiler/artifact/plan_version.h"
#include "kernels/device/cpu_features.h"

namespace preheat::runtime {

using EntryList = std::vector<uint32_t>;

// Writes plans in tests. Sizes are entries of the table, made by Const, Symbol and Op; shapes are lists of entries.
class PlanForTest {
 public:
  explicit PlanForTest(flatbuffers::FlatBufferBuilder& fbb) : fbb_(fbb) { Const(0); }

  uint32_t Const(int64_t value) {
    const auto found = constants_of_.find(value);
    if (found != constants_of_.end()) return found->second;
    return constants_of_[value] = Op(plan::SizeOp::Const, value, 0);
  }
  uint32_t Op(plan::SizeOp op, int64_t a, int64_t b) {
    sizes_.push_back(plan::SizeNode(op, a, b));
    return static_cast<uint32_t>(sizes_.size() - 1);
  }
  uint32_t Symbol(const char* name, int64_t min, int64_t max, int input, int dim) {
    symbols_.push_back(plan::CreateSymbolDefDirect(fbb_, name, min, max, input, dim));
    return Op(plan::SizeOp::Symbol, static_cast<int64_t>(symbols_.size()) - 1, 0);
  }
  EntryList Consts(const std::vector<int64_t>& values) {
    EntryList list;
    for (int64_t v : values) list.push_back(Const(v));
    return list;
  }
  EntryList RowMajor(const EntryList& sizes) {
    EntryList strides(sizes.size());
    uint32_t next = Const(1);
    for (size_t i = sizes.size(); i-- > 0;) {
      strides[i] = next;
      if (i > 0) next = Op(plan::SizeOp::Mul, next, sizes[i]);
    }
    return strides;
  }
  uint32_t Bytes(plan::DType dtype, const EntryList& sizes) {
    static constexpr int64_t kSizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
    uint32_t bytes = Const(kSizes[static_cast<int>(dtype)]);
    for (uint32_t size : sizes) bytes = Op(plan::SizeOp::Mul, bytes, size);
    return bytes;
  }
  void Guard(uint32_t size, const char* text) { guards_.push_back(plan::CreateGuardDirect(fbb_, size, text)); }

  uint32_t Buffer(plan::DType dtype, plan::Storage storage, uint32_t index, uint32_t offset, const EntryList& sizes) {
    return Buffer(dtype, storage, index, offset, sizes, RowMajor(sizes));
  }
  uint32_t Buffer(plan::DType dtype, plan::Storage storage, uint32_t index, uint32_t offset, const EntryList& sizes,
                  const EntryList& strides) {
    const uint32_t bytes = Bytes(dtype, sizes);
    buffers_.push_back(plan::CreateBufferDirect(fbb_, dtype, storage, index, offset, bytes, &sizes, &strides));
    shapes_.push_back({sizes, strides});
    return static_cast<uint32_t>(buffers_.size() - 1);
  }
  uint32_t Input(plan::DType dtype, const EntryList& sizes, bool frozen = false, uint32_t alignment = 16) {
    const uint32_t buffer = Buffer(dtype, plan::Storage::Input, static_cast<uint32_t>(inputs_.size()), 0, sizes);
    inputs_.push_back(plan::CreateInputSpec(fbb_, frozen ? plan::InputKind::Parameter : plan::InputKind::User, buffer,
                                            alignment, frozen, false));
    return buffer;
  }
  uint32_t SizeInput() {
    const uint32_t buffer =
        Buffer(plan::DType::I64, plan::Storage::Input, static_cast<uint32_t>(inputs_.size()), 0, {});
    inputs_.push_back(plan::CreateInputSpec(fbb_, plan::InputKind::User, buffer, 8, false, true));
    return buffer;
  }
  uint32_t Output(plan::DType dtype, const EntryList& sizes) {
    const uint32_t buffer = Buffer(dtype, plan::Storage::Output, static_cast<uint32_t>(outputs_.size()), 0, sizes);
    outputs_.push_back(plan::CreateOutputSpec(fbb_, buffer));
    return buffer;
  }
  void Mutates(uint32_t buffer, int input) { outputs_.push_back(plan::CreateOutputSpec(fbb_, buffer, input)); }
  // At the next free place of the arena.
  uint32_t Arena(plan::DType dtype, const EntryList& sizes) {
    return Place(dtype, plan::Storage::Arena, sizes, &arena_);
  }
  uint32_t Session(plan::DType dtype, const EntryList& sizes) {
    return Place(dtype, plan::Storage::Session, sizes, &session_);
  }
  uint32_t Constant(plan::DType dtype, const EntryList& sizes, const void* data, size_t bytes) {
    constants_.resize((constants_.size() + 63) / 64 * 64);
    const uint32_t buffer =
        Buffer(dtype, plan::Storage::Constant, 0, Const(static_cast<int64_t>(constants_.size())), sizes);
    const uint8_t* p = static_cast<const uint8_t*>(data);
    constants_.insert(constants_.end(), p, p + bytes);
    return buffer;
  }

  uint32_t Code(const std::string& digest) {
    code_.push_back(plan::CreateCodeDirect(fbb_, plan::CodeKind::SharedObject, digest.c_str()));
    return static_cast<uint32_t>(code_.size() - 1);
  }
  uint32_t Kernel(uint32_t code, const char* symbol) {
    kernels_.push_back(plan::CreateKernelDirect(fbb_, symbol, code, symbol, "pointwise"));
    return static_cast<uint32_t>(kernels_.size() - 1);
  }
  uint32_t ErrorSite(const char* op) {
    sites_.push_back(fbb_.CreateString(op));
    return static_cast<uint32_t>(sites_.size());
  }

  // --- Steps; each returns the step, for Run or Prologue. ---
  using Step = flatbuffers::Offset<plan::Step>;
  // The last buffer is written; `in_place`: perhaps over one that is read, places in `buffers`.
  Step Launch(uint32_t kernel, const EntryList& buffers, uint32_t extent, const EntryList& scalars = {},
              uint32_t scratch = 0, int64_t grain = 1, const EntryList& in_place = {}) {
    std::vector<uint8_t> writes(buffers.size(), 0);
    writes.back() = 1;
    const auto step = plan::CreateKernelStepDirect(fbb_, kernel, &buffers, &scalars, extent, grain, scratch, nullptr,
                                                   nullptr, 0, &writes, &in_place);
    return Wrap(plan::StepKind::KernelStep, step.Union());
  }
  flatbuffers::Offset<plan::Operand> Operand(uint32_t buffer) {
    return plan::CreateOperandDirect(fbb_, buffer, &shapes_[buffer].first, &shapes_[buffer].second, 0);
  }
  flatbuffers::Offset<plan::Operand> View(uint32_t buffer, const EntryList& sizes, const EntryList& strides,
                                          uint32_t offset = 0) {
    return plan::CreateOperandDirect(fbb_, buffer, &sizes, &strides, offset);
  }
  flatbuffers::Offset<plan::Epilogue> Epilogue(plan::EpilogueOp op, flatbuffers::Offset<plan::Operand> operand = 0) {
    return plan::CreateEpilogue(fbb_, op, operand);
  }
  Step MatMul(flatbuffers::Offset<plan::Operand> a, flatbuffers::Offset<plan::Operand> b,
              flatbuffers::Offset<plan::Operand> result,
              const std::vector<flatbuffers::Offset<plan::Epilogue>>& epilogue = {}, bool frozen_b = false) {
    const std::vector<flatbuffers::Offset<plan::Operand>> operands = {a, b};
    const std::vector<uint8_t> frozen = {0, frozen_b};
    return Wrap(plan::StepKind::LibraryStep,
                plan::CreateLibraryStepDirect(fbb_, plan::LibraryOp::MatMul, &operands, result, nullptr, nullptr,
                                              nullptr, nullptr, 1, false, &epilogue, &frozen)
                    .Union());
  }
  Step Extern(const char* op, const char* call, const EntryList& operands, const EntryList& results,
              const std::vector<uint32_t>& defines = {}) {
    std::vector<flatbuffers::Offset<plan::Operand>> list;
    for (uint32_t buffer : operands) list.push_back(Operand(buffer));
    return Wrap(plan::StepKind::ExternStep,
                plan::CreateExternStepDirect(fbb_, op, call, &list, &results, &defines).Union());
  }
  Step ReadScalar(uint32_t buffer, uint32_t symbol) {
    return Wrap(plan::StepKind::ReadScalar, plan::CreateReadScalar(fbb_, buffer, symbol).Union());
  }
  Step If(uint32_t condition, uint32_t then_plan, uint32_t else_plan, const EntryList& buffers) {
    return Wrap(plan::StepKind::If, plan::CreateIfDirect(fbb_, condition, then_plan, else_plan, &buffers).Union());
  }
  Step While(uint32_t condition, uint32_t body, const EntryList& buffers, int64_t limit) {
    return Wrap(plan::StepKind::While, plan::CreateWhileDirect(fbb_, condition, body, &buffers, limit).Union());
  }
  Step CallPlan(uint32_t subplan, const EntryList& buffers) {
    return Wrap(plan::StepKind::CallPlan, plan::CreateCallPlanDirect(fbb_, subplan, &buffers).Union());
  }
  void Run(Step step) { steps_.push_back(step); }
  void Prologue(Step step) { prologue_.push_back(step); }
  uint32_t Subplan(flatbuffers::Offset<plan::Plan> subplan) {
    subplans_.push_back(subplan);
    return static_cast<uint32_t>(subplans_.size() - 1);
  }

  uint32_t version = plan::kPlanVersion;
  std::string target = HostTarget();

  flatbuffers::Offset<plan::Plan> Build() {
    const uint32_t arena = arena_ != UINT32_MAX ? arena_ : Const(0);
    return plan::CreatePlanDirect(fbb_, version, target.c_str(), &symbols_, &sizes_, &guards_, &buffers_, &constants_,
                                  &code_, &kernels_, &prologue_, &steps_, &inputs_, &outputs_, arena,
                                  session_ != UINT32_MAX ? session_ : 0, &sites_, &subplans_);
  }
  std::string Finish() {
    plan::FinishPlanBuffer(fbb_, Build());
    return std::string(reinterpret_cast<const char*>(fbb_.GetBufferPointer()), fbb_.GetSize());
  }

 private:
  Step Wrap(plan::StepKind kind, flatbuffers::Offset<void> step) { return plan::CreateStep(fbb_, kind, step); }

  uint32_t Place(plan::DType dtype, plan::Storage storage, const EntryList& sizes, uint32_t* end) {
    const uint32_t offset = *end != UINT32_MAX ? *end : Const(0);
    const uint32_t buffer = Buffer(dtype, storage, 0, offset, sizes);
    const uint32_t padded = Op(plan::SizeOp::Add, Bytes(dtype, sizes), Const(63));
    const uint32_t rounded = Op(plan::SizeOp::Mul, Op(plan::SizeOp::FloorDiv, padded, Const(64)), Const(64));
    *end = Op(plan::SizeOp::Add, offset, rounded);
    return buffer;
  }

  flatbuffers::FlatBufferBuilder& fbb_;
  std::map<int64_t, uint32_t> constants_of_;
  std::vector<plan::SizeNode> sizes_;
  std::vector<flatbuffers::Offset<plan::SymbolDef>> symbols_;
  std::vector<flatbuffers::Offset<plan::Guard>> guards_;
  std::vector<flatbuffers::Offset<plan::Buffer>> buffers_;
  std::vector<std::pair<EntryList, EntryList>> shapes_;
  std::vector<uint8_t> constants_;
  std::vector<flatbuffers::Offset<plan::Code>> code_;
  std::vector<flatbuffers::Offset<plan::Kernel>> kernels_;
  std::vector<Step> prologue_, steps_;
  std::vector<flatbuffers::Offset<plan::InputSpec>> inputs_;
  std::vector<flatbuffers::Offset<plan::OutputSpec>> outputs_;
  std::vector<flatbuffers::Offset<flatbuffers::String>> sites_;
  std::vector<flatbuffers::Offset<plan::Plan>> subplans_;
  uint32_t arena_ = UINT32_MAX, session_ = UINT32_MAX;
};

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_PLAN_FOR_TEST_H_
