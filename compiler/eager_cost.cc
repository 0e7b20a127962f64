#include "compiler/eager_cost.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace preheat {

using capture::AtenNode;
using capture::AtenProgram;
using capture::ValueRef;

namespace {

// "aten.view.default" -> "view"
std::string BaseName(const std::string& op) {
  size_t start = op.find('.');
  if (start == std::string::npos) return op;
  size_t end = op.find('.', start + 1);
  return op.substr(start + 1, end == std::string::npos ? end : end - start - 1);
}

bool IsEagerView(const std::string& name) {
  static const std::set<std::string> views = {"view",
                                              "_unsafe_view",
                                              "reshape",
                                              "permute",
                                              "t",
                                              "transpose",
                                              "expand",
                                              "expand_as",
                                              "slice",
                                              "select",
                                              "squeeze",
                                              "unsqueeze",
                                              "alias",
                                              "detach",
                                              "split",
                                              "split_with_sizes",
                                              "chunk",
                                              "unbind",
                                              "diagonal",
                                              "as_strided",
                                              "unfold",
                                              "narrow",
                                              "view_as",
                                              "flatten",
                                              "unflatten",
                                              "movedim",
                                              "swapaxes",
                                              "view_as_real",
                                              "view_as_complex",
                                              "real",
                                              "imag",
                                              "lift_fresh",
                                              "contiguous",
                                              "numpy_T",
                                              "mT",
                                              "tensor_split",
                                              "hsplit",
                                              "vsplit",
                                              "dsplit",
                                              "sym_size",
                                              "sym_numel",
                                              "sym_stride",
                                              "_assert_scalar",
                                              "_assert_tensor_metadata",
                                              "empty",
                                              "empty_like",
                                              "new_empty",
                                              "empty_strided",
                                              "new_empty_strided",
                                              "empty_permuted",
                                              "type_as_view",
                                              "broadcast_to",
                                              "atleast_1d",
                                              "atleast_2d"};
  return views.count(name) != 0;
}

// Composites that are not one kernel.
int CompositeKernels(const std::string& name) {
  static const std::map<std::string, int> counts = {{"cross_entropy_loss", 2},
                                                    {"nll_loss", 1},
                                                    {"mse_loss", 1},
                                                    {"instance_norm", 1},
                                                    {"matmul", 1},
                                                    {"einsum", 1},
                                                    {"var_mean", 1},
                                                    {"std", 1},
                                                    {"addcmul", 1},
                                                    {"stack", 1},
                                                    {"rms_norm", 6},
                                                    {"multi_head_attention_forward", 8},
                                                    {"silu", 1},
                                                    {"native_batch_norm", 1}};
  auto it = counts.find(name);
  return it == counts.end() ? 1 : it->second;
}

int64_t Bytes(const AtenProgram& program, int value) {
  const capture::AtenValue& v = program.values[value];
  if (v.is_size) return 0;
  ir::Expr elements = v.type.tensor.NumElements();
  int64_t count = elements.Evaluate([&](const std::string& name) {
    for (const ir::Symbol& s : program.symbols) {
      if (s.name == name) return s.min;
    }
    return int64_t{1};
  });
  return count * ir::DTypeSize(v.type.tensor.dtype);
}

std::vector<int> Tensors(const AtenNode& node) {
  std::vector<int> ids;
  for (const capture::NamedArgument& arg : node.args) {
    if (const auto* ref = std::get_if<ValueRef>(&arg.value)) ids.push_back(ref->id);
    if (const auto* list = std::get_if<std::vector<std::optional<ValueRef>>>(&arg.value)) {
      for (const auto& ref : *list) {
        if (ref) ids.push_back(ref->id);
      }
    }
  }
  return ids;
}

}  // namespace

int CountEagerKernels(const AtenProgram& program) {
  int count = 0;
  for (const AtenNode& node : program.nodes) {
    int inside = 0;  // control flow: the longer way
    for (const AtenProgram& block : node.blocks) inside = std::max(inside, CountEagerKernels(block));
    count += inside;
    std::string name = BaseName(node.op);
    if (!node.IsControl() && !IsEagerView(name)) count += CompositeKernels(name);
  }
  return count;
}

int64_t EagerPeakBytes(const AtenProgram& program) {
  // A view's memory is its first tensor argument's.
  std::vector<int> owner(program.values.size());
  for (size_t v = 0; v < owner.size(); ++v) owner[v] = static_cast<int>(v);
  std::vector<int> last(program.values.size(), -1);
  int step = 0;
  for (const AtenNode& node : program.nodes) {
    std::vector<int> inputs = Tensors(node);
    for (int id : inputs) last[owner[id]] = step;
    bool view = IsEagerView(BaseName(node.op)) && !inputs.empty();
    for (int result : node.results) {
      if (result < 0) continue;
      if (view) owner[result] = owner[inputs[0]];
      last[owner[result]] = std::max(last[owner[result]], step);
    }
    ++step;
  }
  for (const capture::OutputSpec& output : program.outputs) {
    if (output.value >= 0) last[owner[output.value]] = step;
  }
  std::vector<std::vector<int>> dying(step + 1);
  int64_t live = 0, peak = 0;
  step = 0;
  for (const AtenNode& node : program.nodes) {
    for (int result : node.results) {
      if (result < 0 || owner[result] != result) continue;
      live += Bytes(program, result);
      dying[last[result]].push_back(result);
    }
    int64_t inside = 0;
    for (const AtenProgram& block : node.blocks) inside = std::max(inside, EagerPeakBytes(block));
    peak = std::max(peak, live + inside);
    for (int value : dying[step]) live -= Bytes(program, value);
    ++step;
  }
  return peak;
}

}  // namespace preheat
