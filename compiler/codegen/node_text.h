#ifndef PREHEAT_COMPILER_CODEGEN_NODE_TEXT_H_
#define PREHEAT_COMPILER_CODEGEN_NODE_TEXT_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/loop_ir.h"
#include "compiler/codegen/lower_region.h"
#include "compiler/schedule/access.h"
#include "compiler/schedule/fuse.h"

namespace preheat::codegen {

// An operand or result of a node as its kernel addresses it.
struct NodeArray {
  std::string constant;  // not empty: every element is that, and there is no buffer
  int buffer = 0;
  ir::DType dtype = ir::DType::kF32;
  std::vector<ir::Expr> shape, strides;
  ir::Expr offset;
};

// How the kernel of one node that is no expression over loops (schedule/fuse.h, IsNodeKernel) spells what it reads and
// writes, in C. Notes in `kernel` the buffers, in math() the functions and in Symbols() the sizes that the text needs.
class NodeText {
 public:
  // What is given stays the caller's and outlives this. `size_prefix`: before the name of a size.
  NodeText(const schedule::Region& region, const StridesFn& strides_of, const ir::Ranges& sizes, Kernel& kernel,
           std::string size_prefix = "")
      : node_(*region.outputs[0].node),
        strides_of_(strides_of),
        sizes_(sizes),
        kernel_(kernel),
        size_prefix_(std::move(size_prefix)) {}

  const ir::Node& node() const { return node_; }
  size_t dim() const { return static_cast<size_t>(node_.Int("dim")); }
  const ir::Ranges& sizes() const { return sizes_; }
  Kernel& kernel() { return kernel_; }
  std::set<std::string>& math() { return math_; }
  std::vector<std::string> Symbols() const { return {symbols_.begin(), symbols_.end()}; }

  NodeArray Operand(int i);       // through the views that its buffer can be addressed through
  NodeArray Filled(int i) const;  // REQUIRES: the operand is a fill
  NodeArray Result(int i);
  std::string BufferType(size_t b) const;  // "const float", without const where the kernel writes

  // A variable of the kernel; every other symbol is a size, which it is passed.
  ir::Expr Local(const std::string& name);
  std::string Text(const ir::Expr& e);  // "(a0 * 128)"
  std::string Element(const NodeArray& a, const schedule::Index& index);
  std::string Load(const NodeArray& a, const schedule::Index& index);
  std::string Converted(const std::string& value, ir::DType dtype);  // from what is computed with to memory's type
  // What `reduce` (the attribute of scatter and put_rows) makes of an old and a new element, in what is computed with.
  std::string Reduced(const std::string& reduce, const std::string& a, const std::string& b, ir::DType dtype);

 private:
  int Buffer(ir::Value value, bool written);

  const ir::Node& node_;
  const StridesFn& strides_of_;
  const ir::Ranges& sizes_;
  Kernel& kernel_;
  const std::string size_prefix_;
  std::map<std::pair<ir::Value, bool>, int> buffers_;
  std::set<std::string> math_, symbols_, locals_;
};

// How two elements of a scan are joined, and what is neutral.
struct ScanJoin {
  ir::Op op, identity;
  bool extreme;  // max, min: joined in the operand's own type, while sums and products of floats are kept in double
};
ScanJoin JoinOf(ir::Op scan);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_NODE_TEXT_H_
