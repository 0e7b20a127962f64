#ifndef PREHEAT_COMPILER_ARTIFACT_PLAN_MODEL_H_
#define PREHEAT_COMPILER_ARTIFACT_PLAN_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/ir/graph.h"

namespace preheat::artifact {

// A plan as plain data, sizes as expressions; write_plan turns it into plan.fbs. Fields mean what plan.fbs says.

enum class Storage : uint8_t { kInput = 0, kOutput = 1, kArena = 2, kSession = 3, kConstant = 4 };

struct Buffer {
  ir::TensorType type;
  std::vector<ir::Expr> strides;
  Storage storage = Storage::kArena;
  uint32_t index = 0;  // input or output
  ir::Expr offset;     // bytes
  ir::Expr bytes;
};

struct Operand {
  uint32_t buffer = 0;
  std::vector<ir::Expr> sizes, strides;
  ir::Expr offset;
};

struct Kernel {
  std::string name;
  std::string symbol;
  uint32_t code = 0;
  std::string region;
  std::vector<std::string> ops;
};

struct KernelStep {
  uint32_t kernel = 0;
  std::vector<uint32_t> buffers;
  std::vector<bool> writes;
  std::vector<std::pair<uint32_t, uint32_t>> in_place;  // (written, read), places in `buffers`: may be the same memory
  std::vector<ir::Expr> scalars;
  ir::Expr extent;
  int64_t grain = 1;
  ir::Expr scratch_bytes;       // CPU: for each thread; CUDA: for each block
  std::vector<ir::Expr> grid;   // CUDA
  std::vector<uint32_t> block;  // CUDA
  ir::Expr shared_bytes;        // CUDA
};

struct Epilogue {
  std::string op;  // as in Op::kFused's `epilogue`
  std::optional<Operand> operand;
};

struct LibraryStep {
  std::string op;  // "matmul", "conv", "conv_grad_input", "conv_grad_weight", "attention", "attention_grad"
  std::vector<Operand> operands;
  Operand result;
  std::vector<Operand> more_results;
  std::vector<int64_t> stride, padding, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false;
  std::vector<Epilogue> epilogue;
  double scale = 1;  // of attention's scores
  std::vector<bool> frozen;
  std::string provider;   // a tuner's choice; empty: the table's first that fits
  std::string algorithm;  // likewise, on a GPU; empty: the library's own choice
};

struct ExternStep {
  std::string op, call, location;
  std::vector<Operand> operands;
  std::vector<uint32_t> results;
};

// Of plans among Plan::subplans. `buffers`: what the subplans take, then what they write.
struct IfStep {
  uint32_t condition = 0;
  uint32_t then_plan = 0, else_plan = 0;
  std::vector<uint32_t> buffers;
};

struct WhileStep {
  uint32_t condition_plan = 0, body_plan = 0;
  std::vector<uint32_t> buffers;
};

using Step = std::variant<KernelStep, LibraryStep, ExternStep, IfStep, WhileStep>;

struct Plan {
  std::string target;
  std::vector<ir::Symbol> symbols;
  std::vector<Buffer> buffers;
  std::string constants;
  std::vector<std::string> code;  // digests of shared objects, or (target cuda:) of cubins
  std::vector<Kernel> kernels;
  std::vector<Step> prologue, steps;
  std::vector<ir::GraphInput> inputs;
  std::vector<uint32_t> input_buffers;
  std::vector<ir::GraphOutput> outputs;
  std::vector<uint32_t> output_buffers;
  ir::Expr arena_bytes, session_bytes;
  std::vector<std::string> error_sites;
  std::vector<Plan> subplans;
};

}  // namespace preheat::artifact

#endif  // PREHEAT_COMPILER_ARTIFACT_PLAN_MODEL_H_
