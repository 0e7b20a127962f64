#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_OP_CONTEXT_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_OP_CONTEXT_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/capture/aten_program.h"
#include "compiler/ir/builder.h"

namespace preheat::decompose {

using capture::Argument;
using ir::Builder;
using ir::DType;
using ir::Expr;
using ir::Op;
using ir::Scalar;
using ir::TensorType;
using ir::Value;

// One ATen operator while it is lowered: its arguments by name, typed, with the schema's defaults; its
// declared results; and the builder. Failures stick, as in Builder: a lowering reads like a formula and never
// checks. A failed or refused lowering leaves dead nodes behind and the operator becomes an extern call.
class OpContext {
 public:
  // `tensors` are the lowered values of the program and `live` says which of its values are used, both by id.
  OpContext(const capture::AtenProgram& program, const capture::AtenNode& node, const std::vector<Value>& tensors,
            const std::vector<bool>& live, bool exact, bool wide, Builder& builder)
      : b(builder),
        program_(program),
        node_(node),
        tensors_(tensors),
        live_(live),
        exact_(exact),
        wide_(wide),
        results_(node.results.size()) {}

  Builder& b;

  // --- Arguments. Those without a default must be there ---
  bool Has(const std::string& name) const;  // given, and not None
  Value Tensor(const std::string& name);
  Value OptionalTensor(const std::string& name);        // null when absent or None
  std::vector<Value> Tensors(const std::string& name);  // null for None in the list
  // The tensor's type and strides as the program declares them; null when the argument is no tensor.
  const capture::AtenType* Declared(const std::string& name) const;
  int64_t Int(const std::string& name);
  int64_t Int(const std::string& name, int64_t otherwise);
  Expr Size(const std::string& name);
  Expr Size(const std::string& name, const Expr& otherwise);
  bool Bool(const std::string& name, bool otherwise);
  double Double(const std::string& name, double otherwise);
  std::string Text(const std::string& name, const std::string& otherwise);
  std::optional<DType> Type(const std::string& name);
  std::vector<int64_t> Ints(const std::string& name);  // empty when absent
  std::vector<Expr> Sizes(const std::string& name);
  std::vector<double> Doubles(const std::string& name);
  const Argument* Arg(const std::string& name) const { return node_.Find(name); }

  // A tensor or a Python number as a value of that dtype: numbers are 0-d.
  Value Operand(const std::string& name, DType dtype);
  // A number of that dtype: doubles round, and integers become doubles where the dtype is a float one.
  static Scalar Number(double value, DType dtype);
  Value Fill(double value, DType dtype, std::vector<Expr> shape = {}) {
    return b.Fill(Number(value, dtype), dtype, std::move(shape));
  }
  // A size as a 0-d value.
  Value SizeAs(const Expr& size, DType dtype) { return b.Cast(b.Size(size), dtype); }

  // Negative dims count from the end of `rank`; a rank of 0 counts as 1, as in torch.
  int64_t Wrap(int64_t dim, int rank);
  // The argument as wrapped dims, sorted; all of them when it is absent, None or empty.
  std::vector<int64_t> Dims(const std::string& name, int rank);

  // --- Results ---
  int num_results() const { return static_cast<int>(node_.results.size()); }
  // Whether something uses the result; others need not be given.
  bool Wanted(int i) const { return HasResult(i) && live_[node_.results[i]]; }
  // Whether the program has a value, and so a type, for the result.
  bool HasResult(int i) const { return i < num_results() && node_.results[i] >= 0; }
  const TensorType& ResultType(int i = 0) const { return program_.values[node_.results[i]].type.tensor; }
  const std::vector<Expr>& ResultShape(int i = 0) const { return ResultType(i).shape; }
  // Gives result i: cast to its declared dtype and grown to its declared shape.
  void Set(int i, Value value);
  void Set(Value value) { Set(0, value); }
  const std::vector<Value>& results() const { return results_; }

  // This form of the operator has no native lowering.
  void Refuse(absl::string_view why);

  // Whether results must be eager's to the last bit: exact.h.
  bool exact() const { return exact_; }
  // Whether what is one number for many elements is f64: LowerOptions.
  bool wide() const { return wide_; }

  const capture::AtenNode& node() const { return node_; }

 private:
  const Argument* Required(const std::string& name);
  Value Lowered(int id);
  void Wrong(const std::string& name, absl::string_view what);
  int64_t Constant(const std::string& name, const Expr& e);

  const capture::AtenProgram& program_;
  const capture::AtenNode& node_;
  const std::vector<Value>& tensors_;
  const std::vector<bool>& live_;
  const bool exact_, wide_;
  std::vector<Value> results_;
};

// The dtype in which eager computes with elements of this one: f32 for the 16-bit floats.
DType ComputeType(DType dtype);

// A lowering, and the tables that hold them: one a family, each in a file of its own.
using LowerFn = std::function<void(OpContext&)>;
using OpTable = std::vector<std::pair<const char*, LowerFn>>;

OpTable PointwiseOps();
OpTable ActivationOps();
OpTable ReduceOps();
OpTable SoftmaxOps();
OpTable ViewOps();
OpTable StridedOps();
OpTable CopyOps();
OpTable PaddingOps();
OpTable SearchOps();
OpTable SpecialOps();
OpTable BesselOps();
OpTable OrthogonalOps();
OpTable UpsampleOps();
OpTable CreationOps();
OpTable MatMulOps();
OpTable EinsumOps();
OpTable NormOps();
OpTable ConvOps();
OpTable PoolOps();
OpTable IndexOps();
OpTable ScanOps();
OpTable AttentionOps();
OpTable GpuAttentionOps();
OpTable LossOps();
OpTable BackwardOps();
OpTable BackwardNormOps();
OpTable BackwardWindowOps();
OpTable BackwardIndexOps();

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_OP_CONTEXT_H_
