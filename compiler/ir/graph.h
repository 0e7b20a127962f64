#ifndef PREHEAT_COMPILER_IR_GRAPH_H_
#define PREHEAT_COMPILER_IR_GRAPH_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/ir/dtype.h"
#include "compiler/ir/expr.h"

namespace preheat::ir {

// What an operator does, from ops.def.
enum class Op : uint8_t {
#define PREHEAT_OP(Name, text, arity, rule, effects) k##Name,
#include "compiler/ir/ops.def"
};

// How result types follow: each rule is one function of infer.cc.
enum class TypeRule : uint8_t {
  kDeclared,
  kSame,
  kBoolOf,
  kCast,
  kWhere,
  kReduce,
  kArgReduce,
  kReshape,
  kPermute,
  kBroadcast,
  kSlice,
  kPad,
  kWindow,
  kConcat,
  kTake,
  kGather,
  kSort,
  kMatMul,
  kConv,
};
enum class Effects : uint8_t { kPure, kEffect };

inline constexpr int kAny = -1;  // arity that varies

struct OpInfo {
  absl::string_view name;  // "reduce_sum"
  int arity;
  TypeRule rule;
  Effects effects;
};
const OpInfo& Info(Op op);
std::optional<Op> ParseOp(absl::string_view name);
int NumOps();

bool IsDivision(Op op);                         // kDiv to kFmod
bool IsUnaryPointwise(Op op);                   // kNeg to kCast
bool IsBinaryPointwise(Op op);                  // kAdd to kGe
bool IsPointwise(Op op);                        // these and kWhere
bool IsReduction(Op op);                        // kReduceSum to kArgMin
bool IsView(Op op);                             // kReshape to kConcat
bool IsLibrary(Op op);                          // kMatMul to kFused
bool TakesOperand(absl::string_view epilogue);  // a step of kFused
bool IsControl(Op op);                          // kIf, kWhile

// The type of a value: what is in it, not how it lies in memory. Intermediate values have no layout.
struct TensorType {
  DType dtype = DType::kF32;
  std::vector<Expr> shape;

  int rank() const { return static_cast<int>(shape.size()); }
  Expr NumElements() const;
  bool operator==(const TensorType& other) const = default;
  std::string ToString() const;  // "f32[d0, 128]"
};

// A number that stands for an element: f64 for floats, i64 for integers and bool.
using Scalar = std::variant<int64_t, double>;

// An attribute's value. Bytes are std::string too: only Constant's `data` holds any.
using AttrValue = std::variant<int64_t, double, std::string, DType, Expr, std::vector<int64_t>, std::vector<Expr>,
                               std::vector<std::string>>;
using Attrs = std::map<std::string, AttrValue>;

class Node;

// One result of one node. Cheap; null by default. Valid as long as its graph.
struct Value {
  const Node* node = nullptr;
  int index = 0;

  explicit operator bool() const { return node != nullptr; }
  bool operator==(const Value& other) const = default;
  bool operator<(const Value& other) const;  // by node id, then index
  const TensorType& type() const;
  const std::vector<Expr>& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
};

// An operator applied to values. Immutable once in a graph; passes build new graphs.
class Node {
 public:
  int id() const { return id_; }  // position in the graph: operands have smaller ids
  Op op() const { return body_->op; }
  absl::Span<const Value> operands() const { return operands_; }
  const Value& operand(int i) const { return operands_[i]; }
  absl::Span<const TensorType> results() const { return body_->results; }
  Value result(int i = 0) const { return Value{this, i}; }
  const Attrs& attrs() const { return body_->attrs; }

  // Attribute access. REQUIRES: the attribute is there, of that kind (the verifier has seen to it).
  int64_t Int(const std::string& name) const;
  double Double(const std::string& name) const;
  const std::string& String(const std::string& name) const;
  const std::vector<int64_t>& Ints(const std::string& name) const;
  const std::vector<Expr>& Exprs(const std::string& name) const;
  const std::vector<std::string>& Strings(const std::string& name) const;
  DType Type(const std::string& name) const;
  Expr ExprAttr(const std::string& name) const;
  Scalar ScalarAttr(const std::string& name) const;  // an int or a float
  bool Has(const std::string& name) const { return attrs().count(name) != 0; }
  bool CountsFromEnd() const { return !Has("from_end"); }  // negative indices of take, gather, scatter, put_rows

  // Ids into the source program's debug information; no part of the IR's text or identity.
  int debug_id() const { return debug_id_; }

 private:
  friend class Graph;
  struct Body {  // what a node has whatever it is applied to: shared by its copies in other graphs
    Op op = Op::kInput;
    std::vector<TensorType> results;
    Attrs attrs;
  };
  int id_ = 0;
  int debug_id_ = -1;
  std::vector<Value> operands_;
  std::shared_ptr<const Body> body_;
};

// A size that a run binds: its name ("d0"), inclusive bounds, and where its value comes from.
struct Symbol {
  std::string name;
  int64_t min = 0;
  std::optional<int64_t> max;
  bool operator==(const Symbol& other) const = default;
};

enum class InputKind : uint8_t { kParameter, kBuffer, kUser, kConstant };

// The boundary: what a caller hands in. `strides` in elements, one a dimension.
struct GraphInput {
  InputKind kind = InputKind::kUser;
  TensorType type;
  std::vector<Expr> strides;
  int alignment = 16;    // bytes that its address must be a multiple of: 16, or one element's size
  bool frozen = false;   // its contents do not change between Refresh calls: the prologue may use them
  bool is_size = false;  // not a tensor: a 0-d i64 that the caller passes as an integer; `symbol` names it
  std::string symbol{};
  bool operator==(const GraphInput& other) const = default;
};

// What a caller gets back. Exactly one of the three: a fresh result; the new contents of an input
// (`mutates` >= 0: the runtime writes into that input); a view of an input's memory is never
// returned: such outputs are values here and the front end rebuilds the alias.
struct GraphOutput {
  Value value;
  std::vector<Expr> strides;  // that the result must have
  int mutates = -1;           // index of the input whose memory takes this value
  int aliases_input = -1;     // information for front ends: eager returned a view of this input
  bool operator==(const GraphOutput& other) const = default;
};

// A program in core operators: append-only, in topological order, static single assignment.
// Not thread-safe while it is built; afterwards safe to read from several threads. Not copyable
// (values point into it); movable.
class Graph {
 public:
  Graph() = default;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  // Declares the next input and returns its value. Inputs keep their order and number through every pass.
  Value AddInput(GraphInput input);

  // Appends a node after checking it and inferring its result types (infer.h). `declared` gives the
  // result types for operators of rule kDeclared and must be empty otherwise.
  // INVALID_ARGUMENT names the operator and what is wrong.
  absl::StatusOr<const Node*> Add(Op op, absl::Span<const Value> operands, Attrs attrs = {},
                                  std::vector<TensorType> declared = {}, int debug_id = -1);

  // Appends the node of another graph on operands of this one, which must have the types of its own: so it is right
  // without a check, and costs little.
  const Node* AddCopy(const Node& node, std::vector<Value> operands);

  void AddOutput(GraphOutput output) { outputs_.push_back(std::move(output)); }
  void AddSymbol(Symbol symbol) { symbols_.push_back(std::move(symbol)); }

  const std::deque<Node>& nodes() const { return nodes_; }
  const std::vector<GraphInput>& inputs() const { return inputs_; }
  const std::vector<Value>& input_values() const { return input_values_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }

  // Bounds of the symbols, for Simplify and proofs.
  Ranges SymbolRanges() const;

  // How many operands and outputs use each value: uses[node id][result index].
  std::vector<std::vector<int>> CountUses() const;

 private:
  std::deque<Node> nodes_;  // a deque: nodes never move
  std::vector<GraphInput> inputs_;
  std::vector<Value> input_values_;
  std::vector<GraphOutput> outputs_;
  std::vector<Symbol> symbols_;
};

// Something for each value of a graph, which must outlive this. Values of nodes that come later have nothing.
template <typename T>
class ValueMap {
 public:
  explicit ValueMap(const Graph& graph, const T& initial = {}) {
    first_.reserve(graph.nodes().size());
    size_t size = 0;
    for (const Node& node : graph.nodes()) {
      first_.push_back(size);
      size += node.results().size();
    }
    items_.assign(size, initial);
  }
  T& operator[](Value value) { return items_[first_[value.node->id()] + value.index]; }
  const T& operator[](Value value) const { return items_[first_[value.node->id()] + value.index]; }

 private:
  std::vector<size_t> first_;  // by node id
  std::vector<T> items_;
};

// Copies the boundary of `from` (symbols, inputs) into an empty graph. Inputs keep their numbers.
void CloneBoundary(const Graph& from, Graph& to);

// Element count, and the strides of a dense row-major tensor, in elements.
Expr NumElements(absl::Span<const Expr> shape);
std::vector<Expr> RowMajorStrides(absl::Span<const Expr> shape);

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_GRAPH_H_
