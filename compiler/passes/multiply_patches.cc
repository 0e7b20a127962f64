#include "compiler/passes/multiply_patches.h"

#include <optional>
#include <vector>

#include "compiler/passes/channel_order.h"
#include "compiler/passes/users.h"
#include "compiler/rewrite/replace_where.h"

namespace preheat::passes {
namespace {

using ir::Builder;
using ir::DType;
using ir::Expr;
using ir::Node;
using ir::Op;
using ir::Value;

// x, filter and result of a convolution, whichever of them a node computes.
struct Roles {
  Value x, filter, y;
};

std::optional<Roles> RolesOf(const Node& node) {
  switch (node.op()) {
    case Op::kConv: return Roles{node.operand(0), node.operand(1), node.result()};
    case Op::kConvGradInput: return Roles{node.result(), node.operand(1), node.operand(0)};
    case Op::kConvGradWeight: return Roles{node.operand(1), node.result(), node.operand(0)};
    default: return std::nullopt;
  }
}

bool All(const std::vector<int64_t>& of, int64_t value) {
  return std::all_of(of.begin(), of.end(), [value](int64_t v) { return v == value; });
}

// The sizes of the patches that the convolution cuts its input into; nothing when they overlap or leave pixels out.
std::optional<std::vector<int64_t>> PatchOf(const Node& node, const Roles& roles) {
  const DType dtype = node.results()[0].dtype;
  if (dtype != DType::kF16 && dtype != DType::kBF16) return std::nullopt;
  if (node.Int("transposed") != 0 || node.Int("groups") != 1 || !All(node.Ints("padding"), 0)) return std::nullopt;
  const std::vector<int64_t>& stride = node.Ints("stride");
  for (size_t i = 0; i < stride.size(); ++i) {
    if (roles.filter.shape()[i + 2] != Expr(stride[i])) return std::nullopt;
    if (stride[i] != 1 && node.Ints("dilation")[i] != 1) return std::nullopt;
    if (roles.x.shape()[i + 2] != roles.y.shape()[i + 2] * Expr(stride[i])) return std::nullopt;
  }
  return stride;
}

// The convolution's three tensors as matrices: a row a patch, or a row an output channel.
class Matrices {
 public:
  Matrices(Builder& b, const Roles& old, std::vector<int64_t> patch)
      : b_(b),
        x_type_(old.x.type()),
        filter_type_(old.filter.type()),
        y_type_(old.y.type()),
        patch_(std::move(patch)),
        spatial_(patch_.size()),
        pixel_(All(patch_, 1)),
        // An input's patches are read as they lie, and the filter is a view then; others have their channels last.
        channels_first_(!pixel_ && old.x.node->op() == Op::kInput) {}

  // [patches, elements of a patch]
  Value Patches(Value x) {
    std::vector<Expr> split = {x_type_.shape[0]};
    std::vector<int64_t> order = {0};
    const int64_t first = channels_first_ ? 2 : 1;
    if (channels_first_) split.push_back(x_type_.shape[1]);
    for (size_t i = 0; i < spatial_; ++i) {
      split.push_back(y_type_.shape[i + 2]);
      split.push_back(Expr(patch_[i]));
      order.push_back(first + 2 * static_cast<int64_t>(i));
    }
    if (channels_first_) order.push_back(1);
    for (size_t i = 0; i < spatial_; ++i) order.push_back(first + 2 * static_cast<int64_t>(i) + 1);
    if (!channels_first_) order.push_back(static_cast<int64_t>(split.size())), split.push_back(x_type_.shape[1]);
    if (!channels_first_) x = b_.Permute(x, ToChannelsLast(x_type_.rank()));
    if (pixel_) return b_.Reshape(x, {Rows(), x_type_.shape[1]});
    return b_.Reshape(b_.Permute(b_.Reshape(x, split), order), {Rows(), PatchElements()});
  }

  // The reverse, to x's shape.
  Value FromPatches(Value rows) {
    std::vector<Expr> split = {x_type_.shape[0]}, joined = split;
    std::vector<int64_t> order = {0};
    for (size_t i = 0; i < spatial_; ++i) split.push_back(y_type_.shape[i + 2]);
    for (size_t i = 0; i < spatial_; ++i) {
      split.push_back(Expr(patch_[i]));
      joined.push_back(x_type_.shape[i + 2]);
      order.push_back(1 + static_cast<int64_t>(i));
      order.push_back(1 + static_cast<int64_t>(i + spatial_));
    }
    order.push_back(static_cast<int64_t>(split.size()));
    split.push_back(x_type_.shape[1]), joined.push_back(x_type_.shape[1]);
    Value pixels = b_.Reshape(b_.Permute(b_.Reshape(rows, split), order), joined);
    return b_.Permute(pixels, FromChannelsLast(x_type_.rank()));
  }

  // [output channels, elements of a patch]
  Value Filter(Value filter) {
    if (!channels_first_) filter = b_.Permute(filter, ToChannelsLast(filter_type_.rank()));
    return b_.Reshape(filter, {filter_type_.shape[0], PatchElements()});
  }
  Value FromFilter(Value matrix) {
    if (channels_first_) return b_.Reshape(matrix, filter_type_.shape);
    std::vector<Expr> split = {filter_type_.shape[0]};
    for (int64_t size : patch_) split.push_back(Expr(size));
    split.push_back(filter_type_.shape[1]);
    return b_.Permute(b_.Reshape(matrix, split), FromChannelsLast(filter_type_.rank()));
  }

  // [patches, output channels]
  Value Pixels(Value y) {
    return b_.Reshape(b_.Permute(y, ToChannelsLast(y_type_.rank())), {Rows(), y_type_.shape[1]});
  }
  Value FromPixels(Value rows) {
    std::vector<Expr> split = {y_type_.shape[0]};
    split.insert(split.end(), y_type_.shape.begin() + 2, y_type_.shape.end());
    split.push_back(y_type_.shape[1]);
    return b_.Permute(b_.Reshape(rows, split), FromChannelsLast(y_type_.rank()));
  }

  void KeepChannelsLast() { channels_first_ = false; }

 private:
  Expr Rows() const {
    Expr rows = y_type_.shape[0];
    for (size_t i = 0; i < spatial_; ++i) rows = rows * y_type_.shape[i + 2];
    return rows;
  }
  Expr PatchElements() const {
    Expr elements = x_type_.shape[1];
    for (int64_t size : patch_) elements = elements * Expr(size);
    return elements;
  }

  Builder& b_;
  const ir::TensorType x_type_, filter_type_, y_type_;
  const std::vector<int64_t> patch_;
  const size_t spatial_;
  const bool pixel_;
  bool channels_first_;
};

Value Emit(const Node& node, const Roles& roles, std::vector<int64_t> patch, rewrite::Rebuild& r) {
  Builder& b = r.builder();
  Matrices m(b, roles, std::move(patch));
  // One after the other: the order of a call's arguments is the compiler's.
  if (node.op() == Op::kConv) {
    Value x = m.Patches(r.Map(roles.x));
    Value filter = b.Permute(m.Filter(r.Map(roles.filter)), {1, 0});
    return m.FromPixels(b.MatMul(x, filter));
  }
  if (node.op() == Op::kConvGradWeight) {
    Value gradient = b.Permute(m.Pixels(r.Map(roles.y)), {1, 0});
    Value x = m.Patches(r.Map(roles.x));
    return m.FromFilter(b.MatMul(gradient, x));
  }
  m.KeepChannelsLast();
  Value gradient = m.Pixels(r.Map(roles.y));
  Value filter = m.Filter(r.Map(roles.filter));
  return m.FromPatches(b.MatMul(gradient, filter));
}

// One-pixel filters: see the header.
bool LiesAsWePlease(const Node& node, const Roles& roles, const Users& users) {
  return node.op() == Op::kConv && roles.x.node->op() != Op::kInput && !users.IsOutput(roles.x) &&
         !users.IsOutput(roles.y);
}

}  // namespace

absl::StatusOr<ir::Graph> MultiplyPatches(const ir::Graph& graph) {
  Users users(graph);
  return rewrite::ReplaceWhere(graph, [&](const Node& node, rewrite::Rebuild& r) {
    const std::optional<Roles> roles = RolesOf(node);
    if (!roles) return Value();
    std::optional<std::vector<int64_t>> patch = PatchOf(node, *roles);
    if (!patch || (All(*patch, 1) && !LiesAsWePlease(node, *roles, users))) return Value();
    return Emit(node, *roles, *std::move(patch), r);
  });
}

}  // namespace preheat::passes
