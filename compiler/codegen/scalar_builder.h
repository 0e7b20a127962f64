#ifndef PREHEAT_COMPILER_CODEGEN_SCALAR_BUILDER_H_
#define PREHEAT_COMPILER_CODEGEN_SCALAR_BUILDER_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "compiler/codegen/loop_ir.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/schedule/access.h"

namespace preheat::codegen {

// Writes values of a region, element by element, into a kernel as scalar statements: a value at an index becomes loads
// from what is stored, and operators on operands at the indices that views map to. Each (value, index) is written once.
// Statements that loops of a stage do not change go to the item's sequence, before the stage; the others into the
// stage's current piece.
//
// The base of StageBuilder, which makes loops and stages; not for use elsewhere.
class ScalarBuilder {
 protected:
  // `inputs` are read from memory, where `strides_of` says; with `copy` outputs are too.
  ScalarBuilder(std::set<ir::Value> inputs, const StridesFn& strides_of, const ir::Ranges& sizes, bool copy)
      : strides_of_(strides_of), ranges_(sizes), copy_(copy), inputs_(std::move(inputs)) {}

  using Key = std::tuple<ir::Value, schedule::Index, int>;  // value, index, predicate

  // State to come back to after a trial.
  struct Snapshot {
    size_t stmts, order;
    std::map<Key, int> memo;
  };
  Snapshot Save() const;
  void Restore(const Snapshot& before);

  void Fail(absl::string_view what);  // the first one stays in status_
  bool Stored(ir::Value value, bool top) const;

  // Loop variables and their ranges; statements that use them have depth `depth` + position (0: all of depth 0).
  void Declare(const std::vector<Loop>& loops, int depth);
  int DepthOf(const ir::Expr& e) const;
  int Push(Stmt stmt);

  // The statement of an element. `predicate` (a statement, or -1) says when it is needed: loads happen only then.
  // `top`: the value is an output being computed, so not read from its own memory.
  int Evaluate(ir::Value value, const schedule::Index& index, int predicate, bool top);
  void StoreAt(const Target& target, const schedule::Index& index, std::vector<Store>& stores);

  // --- Values that a row computes once for several stages ---

  // A kept value as one body computed it: its place in the row and its statement.
  struct Pending {
    ir::Value value;
    ir::Expr place;
    int id;
  };
  // Gives scratch memory to what all pieces of the stage just built computed and later stages want.
  void CommitKept(Stage& stage, const std::vector<std::vector<Pending>>& pending);

  int Buffer(ir::Value value, ir::DType dtype, bool written);
  int AddScratchArray(ir::DType dtype, const ir::Expr& elements);  // computed in the type of `dtype`

  const StridesFn& strides_of_;
  ir::Ranges ranges_;
  const bool copy_;
  absl::Status status_;
  std::set<ir::Value> inputs_;
  std::map<ir::Value, int> results_;  // a reduction's statement
  std::map<std::string, int> depth_;
  std::map<Key, int> memo_, stage_memo_;  // of depth <= 1, and within the current piece
  Kernel kernel_;
  Piece* current_ = nullptr;      // of the body that runs
  ir::Expr inner_;                // position in the row, of the body that runs
  ir::Expr outer_position_;       // the row
  ir::Expr outer_count_ = 1;      // the number of rows
  std::set<ir::Value> kept_;      // worth keeping in scratch memory
  std::vector<Pending> pending_;  // computed by the body that runs

 private:
  std::map<Key, int>& MemoFor(const Key& key, int id);
  int EvaluateNew(ir::Value value, const schedule::Index& index, int predicate, bool top);
  int Load(ir::Value value, const schedule::Index& index, int predicate);
  int Constant(ir::Scalar value, ir::DType dtype);
  int IndexValue(const ir::Expr& e, ir::DType dtype);
  int Cast(int arg, ir::DType dtype);
  bool MayDivideByZero(const Stmt& op) const;  // integers
  int Pointwise(const ir::Node& node, const schedule::Index& index, int predicate);
  int Condition(const std::vector<ir::Expr>& conditions, int predicate);
  int Select(int condition, int then, int otherwise, ir::DType dtype);
  int Pad(const ir::Node& node, const schedule::Index& index, int predicate);
  int Concat(const ir::Node& node, const schedule::Index& index, int predicate);
  int Indexed(const ir::Node& node, const schedule::Index& index, int predicate);
  ir::Expr Wrapped(int position, const ir::Expr& bound, const ir::Node& node, int predicate);
  std::optional<ir::Expr> PlaceInRow(ir::Value value, const schedule::Index& index) const;
  int LoadKept(ir::Value value, const ir::Expr& place);
  void Keep(ir::Value value, const schedule::Index& index, int id);

  std::map<std::pair<ir::Value, bool>, int> buffers_;
  std::map<ir::Value, int> scratch_;  // kept so far
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_SCALAR_BUILDER_H_
