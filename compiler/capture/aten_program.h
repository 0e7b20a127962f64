#ifndef PREHEAT_COMPILER_CAPTURE_ATEN_PROGRAM_H_
#define PREHEAT_COMPILER_CAPTURE_ATEN_PROGRAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/ir/dtype.h"
#include "compiler/ir/expr.h"
#include "compiler/ir/graph.h"

namespace preheat::capture {

// A program in the wire dialect: functional ATen with composites kept, arguments by schema order.
// The importers write it, decompose/ reads it, the reference walker (compiler/reference) runs it.
// Plain data: no protobuf (program_proto.h converts), no torch.

// A full type, as it travels: what, and how it lies in memory.
struct AtenType {
  ir::TensorType tensor;
  std::vector<ir::Expr> strides;  // elements
  std::string device_type = "cpu";
  int alignment = 16;  // bytes
};

struct Complex {
  double re = 0, im = 0;
  bool operator==(const Complex&) const = default;
};
// Names as torch prints them without "torch.": "contiguous_format", "strided", "cpu".
struct Enum {
  enum class Kind : uint8_t { kLayout, kMemoryFormat, kDevice } kind;
  std::string name;
  bool operator==(const Enum&) const = default;
};
struct ValueRef {
  int id;  // into AtenProgram::values
  bool operator==(const ValueRef&) const = default;
};
struct None {
  bool operator==(const None&) const = default;
};

// One argument. Sizes are expressions, constants among them: an int argument is an Expr.
using Argument = std::variant<None, ValueRef, std::vector<std::optional<ValueRef>>, ir::Expr, double, bool, std::string,
                              Complex, ir::DType, Enum, std::vector<ir::Expr>, std::vector<double>, std::vector<bool>>;

struct NamedArgument {
  std::string name;  // the schema's
  Argument value;
  bool keyword = false;
};

struct AtenNode;

// A value is a tensor or a size; a size's `expr` says what it is, so nothing needs to compute it.
struct AtenValue {
  AtenType type;
  bool is_size = false;
  ir::Expr expr;
};

struct InputSpec {
  int value;
  ir::InputKind kind = ir::InputKind::kUser;
  bool frozen = false;
};

struct OutputSpec {
  enum class Kind : uint8_t { kUser, kMutatesInput } kind = Kind::kUser;
  int value = -1;           // -1: None
  int mutates = -1;         // index into inputs
  int aliases_input = -1;   // index into inputs whose memory eager's result shares
  int aliases_output = -1;  // index of an earlier output likewise
};

struct ConstantData {
  int value;         // the value it defines, which is no input
  std::string data;  // dense, row-major; at most kMaxConstantBytes
};
inline constexpr size_t kMaxConstantBytes = 4096;

struct DebugInfo {                       // never hashed
  std::vector<std::string> value_names;  // one a value
  struct Location {
    std::string op, name, stack;  // stack: "file.py:12 in forward: code" lines
  };
  std::vector<Location> locations;       // AtenNode::debug_id
  std::vector<std::string> input_names;  // "encoder.layer.0.weight", one an input
  std::vector<std::string> output_names;
};

struct AtenProgram {
  std::vector<ir::Symbol> symbols;
  // Names people use for symbols ("seq" for d1) and conditions the source proved, as expressions that are >= 0.
  std::map<std::string, std::string> dim_names;
  std::vector<ir::Expr> guards;
  std::vector<AtenValue> values;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<ConstantData> constants;
  std::vector<AtenNode> nodes;
  DebugInfo debug;
};

// Control flow that the contents of tensors decide has operators of its own, whose arguments are `condition`, a bool
// without dimensions, and `operands`, a list. Its blocks are programs that take the operands:
//   preheat.if     two blocks, of which the one that the condition says gives the results
//   preheat.while  one block, which gives the next condition and new values of the first operands, as many as there are
//                  results; it runs as long as the condition holds, and the results are what it gave last
inline constexpr char kIfOp[] = "preheat.if", kWhileOp[] = "preheat.while";

struct AtenNode {
  std::string op;                   // "aten.add.Tensor"
  std::vector<NamedArgument> args;  // in schema order; omitted ones have their default
  // Results in order. -1: none (an absent optional). A result that is a list of tensors is flattened here and
  // `result_is_list` set (split, unbind).
  std::vector<int> results;
  bool result_is_list = false;
  int debug_id = -1;
  std::vector<AtenProgram> blocks = {};  // of kIfOp and kWhileOp

  const Argument* Find(const std::string& name) const;  // null when omitted
  bool IsControl() const { return op == kIfOp || op == kWhileOp; }
};

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_ATEN_PROGRAM_H_
