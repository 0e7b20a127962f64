#include "compiler/kernel_memo.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

using ir::Expr;
using ir::Node;
using ir::Value;

// The text of a region in which values are numbered in graph order: equal for regions that generate the same kernel.
class RegionText {
 public:
  RegionText(const schedule::Region& region, const schedule::Layouts& layouts) : layouts_(layouts) {
    FindNodes(region);
    absl::StrAppend(&text_, static_cast<int>(region.kind), " ", region.block, " ");
    Add(region.outer);
    for (const Node* node : nodes_) AddNode(*node);
    for (Value value : region.inputs) AddStored("<", value);
    for (Value value : region.outputs) AddStored(">", value);
  }

  const std::string& text() const { return text_; }

  // Where a value that the region reads or writes stands among the region's nodes, and which result it is.
  std::pair<size_t, int> PlaceOf(Value value) const { return {PlaceOf(value.node), value.index}; }
  Value At(std::pair<size_t, int> place) const { return nodes_[place.first]->result(place.second); }

 private:
  // What lies between inputs and outputs, both included, in graph order.
  void FindNodes(const schedule::Region& region) {
    inputs_.insert(region.inputs.begin(), region.inputs.end());
    std::set<const Node*> seen;
    std::vector<Value> stack(region.outputs.begin(), region.outputs.end());
    stack.insert(stack.end(), region.inputs.begin(), region.inputs.end());
    const std::set<Value> outputs(region.outputs.begin(), region.outputs.end());
    while (!stack.empty()) {
      const Value value = stack.back();
      stack.pop_back();
      const bool read = inputs_.count(value) != 0 && outputs.count(value) == 0;
      if (!seen.insert(value.node).second) continue;
      nodes_.push_back(value.node);
      if (read) continue;
      inner_.insert(value.node);
      for (Value operand : value.node->operands()) stack.push_back(operand);
    }
    std::sort(nodes_.begin(), nodes_.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
  }

  size_t PlaceOf(const Node* node) const {
    auto at = std::lower_bound(nodes_.begin(), nodes_.end(), node,
                               [](const Node* a, const Node* b) { return a->id() < b->id(); });
    return static_cast<size_t>(at - nodes_.begin());
  }

  void AddNode(const Node& node) {
    text_ += ';';
    if (inner_.count(&node) == 0) return;  // read from memory: how it came about does not matter
    absl::StrAppend(&text_, static_cast<int>(node.op()));
    for (const ir::TensorType& type : node.results()) Add(type);
    for (const Value& operand : node.operands()) AddPlace("%", operand);
    for (const auto& [name, value] : node.attrs()) {
      absl::StrAppend(&text_, ",", name, "=");
      std::visit([this](const auto& v) { Add(v); }, value);
    }
  }

  void AddStored(const char* mark, Value value) {
    AddPlace(mark, value);
    Add(value.type());
    Add(layouts_.StridesOf(value));
  }

  void AddPlace(const char* mark, Value value) { absl::StrAppend(&text_, mark, PlaceOf(value.node), ".", value.index); }
  void Add(const ir::TensorType& type) {
    absl::StrAppend(&text_, ":", static_cast<int>(type.dtype));
    Add(type.shape);
  }

  void Add(int64_t v) { absl::StrAppend(&text_, v); }
  void Add(double v) { text_.append(reinterpret_cast<const char*>(&v), sizeof(v)); }
  void Add(const std::string& v) { absl::StrAppend(&text_, v.size(), "\"", v); }
  void Add(ir::DType v) { absl::StrAppend(&text_, static_cast<int>(v)); }
  void Add(const Expr& v) { v.is_constant() ? Add(*v.constant()) : Add(v.ToString()); }
  template <typename T>
  void Add(const std::vector<T>& list) {
    text_ += '[';
    for (const T& item : list) Add(item), text_ += ' ';
  }

  const schedule::Layouts& layouts_;
  std::set<Value> inputs_;
  std::set<const Node*> inner_;
  std::vector<const Node*> nodes_;
  std::string text_;
};

RegionKernel Whole(GeneratedKernel kernel) {
  RegionKernel made{nullptr, kernel.loops.buffers};
  made.kernel = std::make_shared<const GeneratedKernel>(std::move(kernel));
  return made;
}

}  // namespace

absl::StatusOr<RegionKernel> KernelMemo::Generate(const schedule::Region& region, const codegen::Schedule& schedule) {
  const RegionText text(region, layouts_);
  const std::string key = absl::StrCat(text.text(), "\n", codegen::ScheduleText(schedule));
  if (auto known = known_.find(key); known != known_.end()) {
    RegionKernel made{known->second.kernel, known->second.kernel->loops.buffers};
    for (size_t i = 0; i < made.buffers.size(); ++i) made.buffers[i].value = text.At(known->second.places[i]);
    return made;
  }
  ASSIGN_OR_RETURN(GeneratedKernel kernel, GenerateRegion(region, layouts_, sizes_, device_, schedule));
  RegionKernel made = Whole(std::move(kernel));
  Known& known = known_[key];
  known.kernel = made.kernel;
  for (const codegen::KernelBuffer& buffer : made.buffers) known.places.push_back(text.PlaceOf(buffer.value));
  return made;
}

absl::StatusOr<RegionKernel> KernelMemo::Copy(Value value, const std::vector<Expr>& strides) const {
  ASSIGN_OR_RETURN(GeneratedKernel kernel, GenerateCopy(value, strides, layouts_, sizes_, device_));
  return Whole(std::move(kernel));
}

}  // namespace preheat
