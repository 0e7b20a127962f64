// torch.einsum, as products of two operands at a time from left to right; each product is one batched matrix product
// of (labels of both that stay, labels of the first alone, labels summed) and (.., labels summed, labels of the second
// alone). The notation is numpy's (Harris et al., Array programming with NumPy, 2020), without an ellipsis and without
// diagonals.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "compiler/capture/decompose/formulas.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {
namespace {

struct Equation {
  std::vector<std::string> operands;  // a letter a dimension
  std::string result;
};

bool Has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

bool ArePlain(const std::string& labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (!absl::ascii_isalpha(labels[i]) || labels.find(labels[i]) != i) return false;
  }
  return true;
}

// Without an arrow the result has the labels that occur once, in the order of the alphabet.
std::string ImpliedResult(const std::vector<std::string>& operands) {
  std::map<char, int> times;
  for (const std::string& labels : operands) {
    for (char label : labels) ++times[label];
  }
  std::string result;
  for (auto [label, count] : times) {
    if (count == 1) result += label;
  }
  return result;
}

std::optional<Equation> Parse(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const std::vector<std::string> sides = absl::StrSplit(text, "->");
  Equation equation{absl::StrSplit(sides[0], ','), ""};
  equation.result = sides.size() > 1 ? sides[1] : ImpliedResult(equation.operands);
  bool plain = sides.size() <= 2 && ArePlain(equation.result);
  for (const std::string& labels : equation.operands) plain = plain && ArePlain(labels);
  return plain ? std::optional(equation) : std::nullopt;
}

// A tensor whose dimensions have names.
struct Labelled {
  Value value;
  std::string labels;
};

class Contraction {
 public:
  explicit Contraction(OpContext& c) : b_(c.b) {}

  // Sums over the labels that are not in `keep`.
  Labelled SumOut(Labelled x, const std::string& keep) {
    std::vector<int64_t> dims;
    std::string left;
    for (size_t i = 0; i < x.labels.size(); ++i) {
      if (Has(keep, x.labels[i])) {
        left += x.labels[i];
      } else {
        dims.push_back(static_cast<int64_t>(i));
      }
    }
    if (dims.empty()) return x;
    const DType dtype = x.value.dtype();
    Value sum = b_.Reduce(Op::kReduceSum, b_.Cast(x.value, ComputeType(dtype)), dims, false);
    return {b_.Cast(sum, dtype), left};
  }

  // `keep`: labels that something needs afterwards.
  Labelled Multiply(Labelled x, Labelled y, const std::string& keep) {
    x = SumOut(std::move(x), keep + y.labels);
    y = SumOut(std::move(y), keep + x.labels);
    std::string batch, rows, summed, columns;
    for (char label : x.labels) (!Has(y.labels, label) ? rows : Has(keep, label) ? batch : summed) += label;
    for (char label : y.labels) {
      if (!Has(x.labels, label)) columns += label;
    }
    WidenTo(x, y), WidenTo(y, x);
    const std::vector<Expr> lead = SizesOf(x, batch), m = SizesOf(x, rows), n = SizesOf(y, columns);
    const Value left = Matrices(x, {batch, rows, summed}), right = Matrices(y, {batch, summed, columns});
    std::vector<Expr> shape = lead;
    shape.insert(shape.end(), m.begin(), m.end());
    shape.insert(shape.end(), n.begin(), n.end());
    return {b_.Reshape(b_.MatMul(left, right), shape), batch + rows + columns};
  }

  Value InOrder(const Labelled& x, const std::string& labels) {
    std::vector<int64_t> dims;
    for (char label : labels) dims.push_back(static_cast<int64_t>(x.labels.find(label)));
    return b_.Permute(x.value, dims);
  }

 private:
  static std::vector<Expr> SizesOf(const Labelled& x, const std::string& labels) {
    std::vector<Expr> sizes;
    for (char label : labels) sizes.push_back(x.value.shape()[x.labels.find(label)]);
    return sizes;
  }

  // Dimensions of size 1 grow to the other operand's.
  void WidenTo(Labelled& x, const Labelled& other) {
    std::vector<Expr> shape = x.value.shape();
    for (size_t i = 0; i < shape.size(); ++i) {
      const size_t at = other.labels.find(x.labels[i]);
      if (at != std::string::npos && shape[i].constant() == 1) shape[i] = other.value.shape()[at];
    }
    x.value = b_.BroadcastTo(x.value, shape);
  }

  // Each of the three groups of labels as one dimension.
  Value Matrices(const Labelled& x, const std::vector<std::string>& groups) {
    std::vector<Expr> shape;
    std::string labels;
    for (const std::string& group : groups) {
      shape.push_back(ir::NumElements(SizesOf(x, group)));
      labels += group;
    }
    return b_.Reshape(InOrder(x, labels), shape);
  }

  Builder& b_;
};

void Einsum(OpContext& c) {
  const std::optional<Equation> equation = Parse(c.Text("equation", ""));
  const std::vector<Value> tensors = c.Tensors("tensors");
  if (!equation || equation->operands.size() != tensors.size()) return c.Refuse("an ellipsis or a diagonal");
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i] || tensors[i].type().rank() != static_cast<int>(equation->operands[i].size()))
      return c.Refuse("labels that do not fit the operands");
  }
  Contraction contraction(c);
  Labelled all{tensors[0], equation->operands[0]};
  for (size_t i = 1; i < tensors.size(); ++i) {
    std::string keep = equation->result;
    for (size_t later = i + 1; later < tensors.size(); ++later) keep += equation->operands[later];
    all = contraction.Multiply(std::move(all), {tensors[i], equation->operands[i]}, keep);
  }
  all = contraction.SumOut(std::move(all), equation->result);
  for (char label : equation->result) {
    if (!Has(all.labels, label)) return c.Refuse("a result label that no operand has");
  }
  c.Set(contraction.InOrder(all, equation->result));
}

}  // namespace

OpTable EinsumOps() { return {{"aten.einsum.default", Einsum}}; }

}  // namespace preheat::decompose
