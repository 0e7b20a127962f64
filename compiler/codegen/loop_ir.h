#ifndef PREHEAT_COMPILER_CODEGEN_LOOP_IR_H_
#define PREHEAT_COMPILER_CODEGEN_LOOP_IR_H_

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace preheat::codegen {

// A kernel as loops over scalar statements: what lower_region makes of a region and what an emitter prints.
//
// A kernel runs over items: [0, extent), in any order and in parallel. An item is one point of the `outer` loops and,
// in a tiled kernel, one tile of `tile` elements of the loop variable "c" over `tile_size`. Within an item `order` is
// executed in sequence: statements that are the same for the whole item (or one a tile element), and stages. A stage is
// a nest of loops, the last one vectorized (in a tiled kernel the tile is, inside them), whose statements are placed as
// far out as they allow, and which reduces into accumulators and stores.

// What an error word means. Numbers are the same in every kernel, so that equal kernels stay equal; a plan's
// error_sites give the operators that stand behind them in its program.
enum class ErrorSite : int { kTake = 1, kGather = 2, kScatter = 3, kPutRows = 4, kDivision = 5 };
inline constexpr int kNumErrorSites = 5;

inline bool IsHalf(ir::DType dtype) { return dtype == ir::DType::kBF16 || dtype == ir::DType::kF16; }
// The type that a value is computed in.
inline ir::DType ComputeType(ir::DType dtype) { return IsHalf(dtype) ? ir::DType::kF32 : dtype; }
// Reductions that keep a position beside the value.
inline bool IsArg(ir::Op op) { return op == ir::Op::kArgMax || op == ir::Op::kArgMin; }

struct Loop {
  std::string var;
  ir::Expr size;
};

// A scalar in static single assignment. Types are what is computed with: bf16 and f16 are f32 between load and store.
struct Stmt {
  enum class Kind {
    kConstant,   // value
    kIndex,      // the value of `index`, i64
    kCondition,  // bool: every expression of `conditions` is >= 0, and so is the predicate
    kLoad,       // element `index` of `buffer`; 0 where `predicate` is false
    kOp,         // op(args); with an error site: where the predicate holds, args[1] must not be 0
    kCast,       // args[0] as dtype
    kWrap,       // args[0], an index, negative ones counted from `bound` if `from_end`; out of range: 0 and an error
    kResult,     // the result of the accumulator `accumulator`, after its stage
    kScratch,    // element `index` of scratch array `buffer`, which an earlier stage of the item wrote
  };
  Kind kind = Kind::kConstant;
  ir::DType dtype = ir::DType::kF32;
  ir::Op op = ir::Op::kAdd;
  std::vector<int> args;
  ir::Scalar value = int64_t{0};
  ir::Expr index;
  std::vector<ir::Expr> conditions;
  int buffer = -1;
  int predicate = -1;  // a statement; -1: true
  ir::Expr bound;
  bool from_end = true;
  int error_site = 0;  // what the error word is set to; 0: never
  int accumulator = -1;
  int depth = 0;  // 0: item; 1: element of the tile; 2 + k: inside loop k of its stage
};

struct Accumulator {
  ir::Op op = ir::Op::kReduceSum;     // any reduction
  ir::DType dtype = ir::DType::kF32;  // of the operand
  int value = -1;                     // statement
  ir::Expr position;                  // kArgMax, kArgMin: what is kept
};

struct Store {
  int buffer = -1;
  ir::Expr index;
  int value = -1;
  int depth = 0;
};

// Adds to element `place` of a column array (Kernel::column_arrays).
struct ColumnSum {
  int array = -1;
  ir::Expr place;
  int value = -1;
};

// One way through a stage's last loop: [begin, end) of it. Stages with conditions on that loop are cut in pieces
// in which the conditions are known.
struct Piece {
  ir::Expr begin, end;
  std::vector<int> body;                           // statements of depth >= 2 (in a tiled kernel: all inside the stage)
  std::vector<std::pair<int, int>> accumulations;  // accumulator, statement
  std::vector<Store> stores;
  std::vector<Store> scratch_stores;  // into scratch arrays, for later stages
  std::vector<ColumnSum> column_sums;
};

struct Stage {
  std::vector<Loop> loops;
  std::vector<int> accumulators;
  std::vector<Piece> pieces;
  // In a block of something transposed (block_transpose.h): what the two loops are at most. Loads that jump along the
  // last loop and are contiguous along the first may be copied to the block's own memory beforehand.
  int64_t block_lines = 0, block_run = 0;
};

struct Item {  // exactly one: a statement, a store of depth <= 1, or a stage
  int stmt = -1;
  std::optional<Store> store;
  std::optional<Stage> stage;
};

// What a row computes once and reads again in a later stage, in this thread's scratch memory.
struct ScratchArray {
  ir::DType dtype = ir::DType::kF32;
  ir::Expr elements;
  ir::Expr offset;  // bytes
};

// Sums over the rows of an item, one a column: zero before its first row, stored after its last one at start,
// start + 1, ... of `buffer`.
struct ColumnArray {
  int scratch = -1;  // the scratch array that holds them
  int buffer = -1;
  ir::Expr start;
};

struct KernelBuffer {
  ir::Value value;
  ir::DType dtype;
  bool written = false;
};

// Two buffers of a kernel that may be the same memory (in_place.h).
struct InPlace {
  int written = -1;
  int read = -1;
};

struct Kernel {
  std::vector<KernelBuffer> buffers;
  std::vector<InPlace> in_place;     // what the emitter must allow for
  std::vector<std::string> symbols;  // sizes passed as scalars, in order
  std::vector<Loop> outer;
  std::optional<Loop> tile_loop;           // in a tiled kernel: variable "c" and its size
  int tile = 0;                            // elements
  std::optional<Loop> rows;                // an item is a block of rows: `order` is executed for each
  std::vector<ColumnArray> column_arrays;  // only with `rows`
  ir::Expr extent;                         // product of outer sizes times the number of tiles
  ir::Expr work;                           // elements touched by one item: for the grain
  ir::Expr scratch_bytes;                  // for each thread
  std::vector<Stmt> stmts;
  std::vector<Accumulator> accumulators;
  std::vector<ScratchArray> scratch;
  std::vector<Item> order;
  bool checks = false;        // may set the error word
  int copies = 0, width = 0;  // of Choices: what the emitter for CPUs is told; width 0: the target's own
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_LOOP_IR_H_
