#ifndef PREHEAT_COMPILER_CODEGEN_NODE_LOOPS_H_
#define PREHEAT_COMPILER_CODEGEN_NODE_LOOPS_H_

#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/indented_text.h"
#include "compiler/codegen/node_text.h"

namespace preheat::codegen {

// What targets spell otherwise in the loops of a node's kernel.
struct NodeDialect {
  std::string next;     // from a thread's item to its next one
  std::string scratch;  // the thread's own memory
  int columns = 1;      // of a put_rows item
  bool simd = false;    // whether a loop over columns is marked as a vector loop
};

// The loops of a node's kernel over "item", from "begin" to "end", in what all dialects of C have in common. What an
// index out of range reports is in "bad".
class NodeLoops : public NodeText, public IndentedText {
 public:
  NodeLoops(const schedule::Region& region, const StridesFn& strides_of, const ir::Ranges& sizes, Kernel& kernel,
            NodeDialect dialect)
      : NodeText(region, strides_of, sizes, kernel), IndentedText(1), dialect_(std::move(dialect)) {}

  const NodeDialect& dialect() const { return dialect_; }

  // An operand of scatter or put_rows: the fill that they go into is never stored.
  NodeArray OperandOfPut(int i);

  // Opens the loop over items that run through `dims` of `shape`, and defines "i<d>" for each, which it returns; other
  // dimensions' indices are 0.
  schedule::Index OpenItems(const std::vector<ir::Expr>& shape, const std::vector<size_t>& dims);
  void OpenLoop(const std::string& var, const ir::Expr& size);
  void Store(const NodeArray& a, const schedule::Index& index, const std::string& value);
  // Defines "at", the node's index into an array of n; what is outside is reported and goes on with the loop's next
  // round.
  void DefineChecked(const std::string& value, const ir::Expr& n, ErrorSite site);

 private:
  const NodeDialect dialect_;
};

std::vector<size_t> AllDims(size_t rank);
std::vector<size_t> AllDimsBut(size_t rank, size_t dim);

// Each fills the kernel's extent, work and scratch_bytes, and says whether it checks indices.
//
//   scans     one item a line along `dim`, in order; sums and products of f32 and narrower in double
//   scatter   one item a line along `dim`: a copy of x, then the updates in the index's order
//   put_rows  one item some columns behind `dim`: a copy of x, then the rows in the index's order
//   sort      one item a line: a stable merge sort in the thread's own memory
void PrintScan(NodeLoops& p);
void PrintScatter(NodeLoops& p);
void PrintPutRows(NodeLoops& p);
void PrintSort(NodeLoops& p);

// The one of them that the node is.
void PrintNode(NodeLoops& p);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_NODE_LOOPS_H_
