#include "compiler/artifact/write_plan.h"

#include <limits>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/artifact/plan_generated.h"
#include "compiler/artifact/plan_version.h"
#include "compiler/support/status_macros.h"

namespace preheat::artifact {

using ir::Expr;

namespace {

// The flat table of size expressions: equal expressions share an entry.
class SizeTable {
 public:
  explicit SizeTable(const std::vector<ir::Symbol>& symbols) {
    for (size_t i = 0; i < symbols.size(); ++i) symbols_[symbols[i].name] = static_cast<int64_t>(i);
    Entry(plan::SizeOp::Const, 0, 0);
  }

  uint32_t Add(const Expr& e) {
    auto known = entries_.find(e);
    if (known != entries_.end()) return known->second;
    uint32_t sum = 0;
    bool first = true;
    for (const auto& [monomial, coefficient] : e.terms()) {
      uint32_t term = Term(monomial, coefficient);
      sum = first ? term : Entry(plan::SizeOp::Add, sum, term);
      first = false;
    }
    entries_[e] = sum;
    return sum;
  }

  std::vector<uint32_t> Add(const std::vector<Expr>& all) {
    std::vector<uint32_t> ids;
    for (const Expr& e : all) ids.push_back(Add(e));
    return ids;
  }

  const std::vector<plan::SizeNode>& nodes() const { return nodes_; }
  const absl::Status& status() const { return status_; }

 private:
  uint32_t Term(const Expr::Monomial& monomial, int64_t coefficient) {
    bool started = false;
    uint32_t product = 0;
    auto times = [&](uint32_t factor) {
      product = started ? Entry(plan::SizeOp::Mul, product, factor) : factor;
      started = true;
    };
    if (coefficient != 1 || monomial.empty()) times(Entry(plan::SizeOp::Const, coefficient, 0));
    for (const Expr::Atom& atom : monomial) times(AtomEntry(atom));
    return product;
  }

  uint32_t AtomEntry(const Expr::Atom& atom) {
    if (atom.is_symbol()) {
      auto it = symbols_.find(atom.symbol);
      if (it == symbols_.end()) {
        status_ = absl::InternalError(absl::StrCat("size symbol ", atom.symbol, " is not declared"));
        return 0;
      }
      return Entry(plan::SizeOp::Symbol, it->second, 0);
    }
    int64_t a = Add(atom.args[0]), b = Add(atom.args[1]);
    switch (atom.fn) {
      case Expr::Fn::kFloorDiv: return Entry(plan::SizeOp::FloorDiv, a, b);
      case Expr::Fn::kMod: return Entry(plan::SizeOp::Mod, a, b);
      case Expr::Fn::kMax: return Entry(plan::SizeOp::Max, a, b);
      case Expr::Fn::kMin: return Entry(plan::SizeOp::Min, a, b);
    }
    return 0;
  }

  uint32_t Entry(plan::SizeOp op, int64_t a, int64_t b) {
    auto [it, fresh] = unique_.try_emplace({op, a, b}, static_cast<uint32_t>(nodes_.size()));
    if (fresh) nodes_.emplace_back(op, a, b);
    return it->second;
  }

  std::map<std::string, int64_t> symbols_;
  std::map<Expr, uint32_t> entries_;
  std::map<std::tuple<plan::SizeOp, int64_t, int64_t>, uint32_t> unique_;
  std::vector<plan::SizeNode> nodes_;
  absl::Status status_;
};

plan::LibraryOp LibraryOpOf(const std::string& op) {
  if (op == "conv") return plan::LibraryOp::Conv;
  if (op == "conv_grad_input") return plan::LibraryOp::ConvGradInput;
  if (op == "conv_grad_weight") return plan::LibraryOp::ConvGradWeight;
  if (op == "attention") return plan::LibraryOp::Attention;
  if (op == "attention_grad") return plan::LibraryOp::AttentionGrad;
  return plan::LibraryOp::MatMul;
}

plan::EpilogueOp EpilogueOpOf(const std::string& op) {
  static const std::map<std::string, plan::EpilogueOp> ops = {
      {"bias", plan::EpilogueOp::Bias},          {"residual", plan::EpilogueOp::Residual},
      {"relu", plan::EpilogueOp::Relu},          {"gelu", plan::EpilogueOp::Gelu},
      {"gelu_tanh", plan::EpilogueOp::GeluTanh}, {"silu", plan::EpilogueOp::Silu},
      {"tanh", plan::EpilogueOp::Tanh},          {"sigmoid", plan::EpilogueOp::Sigmoid},
      {"mask", plan::EpilogueOp::Mask},          {"causal", plan::EpilogueOp::Causal},
      {"softmax", plan::EpilogueOp::Softmax},    {"safe_softmax", plan::EpilogueOp::SafeSoftmax},
      {"values", plan::EpilogueOp::Values},      {"gradient", plan::EpilogueOp::Gradient},
      {"output", plan::EpilogueOp::Output},      {"log_sums", plan::EpilogueOp::LogSums}};
  return ops.at(op);
}

class PlanWriter {
 public:
  PlanWriter(const Plan& plan, flatbuffers::FlatBufferBuilder& builder) : p_(plan), sizes_(plan.symbols), b_(builder) {}

  absl::StatusOr<flatbuffers::Offset<plan::Plan>> Run() {
    std::vector<flatbuffers::Offset<plan::Plan>> subplans;
    for (const Plan& subplan : p_.subplans) {
      ASSIGN_OR_RETURN(auto written, PlanWriter(subplan, b_).Run());
      subplans.push_back(written);
    }
    ASSIGN_OR_RETURN(auto symbols, Symbols());
    auto buffers = Buffers();
    auto kernels = Kernels();
    auto prologue = Steps(p_.prologue);
    auto steps = Steps(p_.steps);
    auto inputs = Inputs();
    auto outputs = Outputs();
    uint32_t arena = sizes_.Add(p_.arena_bytes), session = sizes_.Add(p_.session_bytes);
    RETURN_IF_ERROR(sizes_.status());
    b_.ForceVectorAlignment(p_.constants.size(), 1, 64);
    auto constants = b_.CreateVector(reinterpret_cast<const uint8_t*>(p_.constants.data()), p_.constants.size());
    std::vector<flatbuffers::Offset<plan::Code>> code;
    const bool cuda = p_.target.rfind("cuda:", 0) == 0;
    const plan::CodeKind kind = cuda ? plan::CodeKind::Cubin : plan::CodeKind::SharedObject;
    for (const std::string& digest : p_.code) {
      code.push_back(plan::CreateCode(b_, kind, b_.CreateString(digest)));
    }
    return plan::CreatePlan(b_, plan::kPlanVersion, b_.CreateString(p_.target), symbols,
                            b_.CreateVectorOfStructs(sizes_.nodes()),
                            b_.CreateVector(std::vector<flatbuffers::Offset<plan::Guard>>{}), buffers, constants,
                            b_.CreateVector(code), kernels, prologue, steps, inputs, outputs, arena, session,
                            b_.CreateVectorOfStrings(p_.error_sites), b_.CreateVector(subplans));
  }

 private:
  template <typename T>
  using Vector = flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<T>>>;

  // Once for all steps that have them: a model's layers have one algorithm, of perhaps 100 KB.
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> Bytes(const std::string& bytes) {
    auto [known, first] = bytes_.try_emplace(bytes);
    if (first) known->second = b_.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    return known->second;
  }

  // A symbol is bound by the first input dimension that is that symbol alone, or by an input that is a size.
  absl::StatusOr<Vector<plan::SymbolDef>> Symbols() {
    std::vector<flatbuffers::Offset<plan::SymbolDef>> defs;
    for (const ir::Symbol& symbol : p_.symbols) {
      auto [input, dim] = SourceOf(symbol.name);
      if (input < 0) {
        return absl::InternalError(absl::StrCat("no input has a dimension ", symbol.name, " to bind the symbol by"));
      }
      defs.push_back(plan::CreateSymbolDef(b_, b_.CreateString(symbol.name), symbol.min,
                                           symbol.max.value_or(std::numeric_limits<int64_t>::max()), input, dim));
    }
    return b_.CreateVector(defs);
  }

  std::pair<int, int> SourceOf(const std::string& name) const {
    for (size_t i = 0; i < p_.inputs.size(); ++i) {
      if (p_.inputs[i].is_size && p_.inputs[i].symbol == name) return {static_cast<int>(i), -1};
    }
    for (size_t i = 0; i < p_.inputs.size(); ++i) {
      const std::vector<Expr>& shape = p_.inputs[i].type.shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (shape[d].symbol() == name) return {static_cast<int>(i), static_cast<int>(d)};
      }
    }
    return {-1, -1};
  }

  Vector<plan::Buffer> Buffers() {
    std::vector<flatbuffers::Offset<plan::Buffer>> buffers;
    for (const Buffer& buffer : p_.buffers) {
      uint32_t offset = sizes_.Add(buffer.offset), bytes = sizes_.Add(buffer.bytes);
      auto sizes = b_.CreateVector(sizes_.Add(buffer.type.shape));
      auto strides = b_.CreateVector(sizes_.Add(buffer.strides));
      buffers.push_back(plan::CreateBuffer(b_, static_cast<plan::DType>(buffer.type.dtype),
                                           static_cast<plan::Storage>(buffer.storage), buffer.index, offset, bytes,
                                           sizes, strides));
    }
    return b_.CreateVector(buffers);
  }

  Vector<plan::Kernel> Kernels() {
    std::vector<flatbuffers::Offset<plan::Kernel>> kernels;
    for (const Kernel& k : p_.kernels) {
      auto name = b_.CreateString(k.name), symbol = b_.CreateString(k.symbol), region = b_.CreateString(k.region);
      kernels.push_back(plan::CreateKernel(b_, name, k.code, symbol, region, b_.CreateVectorOfStrings(k.ops)));
    }
    return b_.CreateVector(kernels);
  }

  Vector<plan::Step> Steps(const std::vector<Step>& steps) {
    std::vector<flatbuffers::Offset<plan::Step>> written;
    for (const Step& step : steps) {
      written.push_back(std::visit([&](const auto& s) { return WriteStep(s); }, step));
    }
    return b_.CreateVector(written);
  }

  flatbuffers::Offset<plan::Step> WriteStep(const KernelStep& s) {
    auto buffers = b_.CreateVector(s.buffers);
    auto scalars = b_.CreateVector(sizes_.Add(s.scalars));
    auto writes = b_.CreateVector(std::vector<uint8_t>(s.writes.begin(), s.writes.end()));
    uint32_t extent = sizes_.Add(s.extent), scratch = sizes_.Add(s.scratch_bytes);
    flatbuffers::Offset<flatbuffers::Vector<uint32_t>> grid, block;
    if (!s.grid.empty()) grid = b_.CreateVector(sizes_.Add(s.grid));
    if (!s.block.empty()) block = b_.CreateVector(s.block);
    const uint32_t shared = sizes_.Add(s.shared_bytes);
    std::vector<uint32_t> pairs;
    for (const auto& [written, read] : s.in_place) pairs.insert(pairs.end(), {written, read});
    flatbuffers::Offset<flatbuffers::Vector<uint32_t>> in_place;
    if (!pairs.empty()) in_place = b_.CreateVector(pairs);
    auto step = plan::CreateKernelStep(b_, s.kernel, buffers, scalars, extent, s.grain, scratch, grid, block, shared,
                                       writes, in_place);
    return plan::CreateStep(b_, plan::StepKind::KernelStep, step.Union());
  }

  flatbuffers::Offset<plan::Step> WriteStep(const LibraryStep& s) {
    std::vector<flatbuffers::Offset<plan::Operand>> operands;
    for (const Operand& operand : s.operands) operands.push_back(WriteOperand(operand));
    std::vector<flatbuffers::Offset<plan::Epilogue>> epilogue;
    for (const Epilogue& e : s.epilogue) {
      flatbuffers::Offset<plan::Operand> operand = e.operand ? WriteOperand(*e.operand) : 0;
      epilogue.push_back(plan::CreateEpilogue(b_, EpilogueOpOf(e.op), operand));
    }
    auto result = WriteOperand(s.result);
    std::vector<flatbuffers::Offset<plan::Operand>> more_results;
    for (const Operand& more : s.more_results) more_results.push_back(WriteOperand(more));
    flatbuffers::Offset<flatbuffers::Vector<uint8_t>> algorithm;
    if (!s.algorithm.empty()) {
      algorithm = Bytes(s.algorithm);
    }
    auto step = plan::CreateLibraryStep(
        b_, LibraryOpOf(s.op), b_.CreateVector(operands), result, b_.CreateVector(s.stride), b_.CreateVector(s.padding),
        b_.CreateVector(s.dilation), b_.CreateVector(s.output_padding), s.groups, s.transposed,
        b_.CreateVector(epilogue), b_.CreateVector(std::vector<uint8_t>(s.frozen.begin(), s.frozen.end())),
        b_.CreateString(s.provider), algorithm, s.scale, b_.CreateVector(more_results));
    return plan::CreateStep(b_, plan::StepKind::LibraryStep, step.Union());
  }

  flatbuffers::Offset<plan::Step> WriteStep(const ExternStep& s) {
    std::vector<flatbuffers::Offset<plan::Operand>> operands;
    for (const Operand& operand : s.operands) operands.push_back(WriteOperand(operand));
    auto op = b_.CreateString(s.op), call = b_.CreateString(s.call), location = b_.CreateString(s.location);
    auto step = plan::CreateExternStep(b_, op, call, b_.CreateVector(operands), b_.CreateVector(s.results),
                                       b_.CreateVector(std::vector<uint32_t>{}), location);
    return plan::CreateStep(b_, plan::StepKind::ExternStep, step.Union());
  }

  flatbuffers::Offset<plan::Step> WriteStep(const IfStep& s) {
    auto step = plan::CreateIf(b_, s.condition, s.then_plan, s.else_plan, b_.CreateVector(s.buffers));
    return plan::CreateStep(b_, plan::StepKind::If, step.Union());
  }

  flatbuffers::Offset<plan::Step> WriteStep(const WhileStep& s) {
    constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
    auto step = plan::CreateWhile(b_, s.condition_plan, s.body_plan, b_.CreateVector(s.buffers), kNoLimit);
    return plan::CreateStep(b_, plan::StepKind::While, step.Union());
  }

  flatbuffers::Offset<plan::Operand> WriteOperand(const Operand& o) {
    auto sizes = b_.CreateVector(sizes_.Add(o.sizes));
    auto strides = b_.CreateVector(sizes_.Add(o.strides));
    return plan::CreateOperand(b_, o.buffer, sizes, strides, sizes_.Add(o.offset));
  }

  Vector<plan::InputSpec> Inputs() {
    std::vector<flatbuffers::Offset<plan::InputSpec>> inputs;
    for (size_t i = 0; i < p_.inputs.size(); ++i) {
      const ir::GraphInput& in = p_.inputs[i];
      inputs.push_back(plan::CreateInputSpec(b_, static_cast<plan::InputKind>(in.kind), p_.input_buffers[i],
                                             static_cast<uint32_t>(in.alignment), in.frozen, in.is_size));
    }
    return b_.CreateVector(inputs);
  }

  Vector<plan::OutputSpec> Outputs() {
    std::vector<flatbuffers::Offset<plan::OutputSpec>> outputs;
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      outputs.push_back(
          plan::CreateOutputSpec(b_, p_.output_buffers[i], p_.outputs[i].mutates, p_.outputs[i].aliases_input));
    }
    return b_.CreateVector(outputs);
  }

  const Plan& p_;
  SizeTable sizes_;
  flatbuffers::FlatBufferBuilder& b_;
  std::map<std::string, flatbuffers::Offset<flatbuffers::Vector<uint8_t>>> bytes_;
};

}  // namespace

absl::StatusOr<std::string> WritePlan(const Plan& plan) {
  flatbuffers::FlatBufferBuilder builder;
  ASSIGN_OR_RETURN(auto root, PlanWriter(plan, builder).Run());
  plan::FinishPlanBuffer(builder, root);
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

}  // namespace preheat::artifact
