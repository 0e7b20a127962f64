#include "tests/scale/large_program.h"

#include <utility>

#include "compiler/capture/test_programs.h"

namespace preheat::testing {
namespace {

using capture::AtenProgram;
using capture::I;
using capture::ProgramWriter;
using capture::T;
using ir::Expr;
using Shape = std::vector<Expr>;

constexpr int kRows = 16, kWidth = 32, kHeads = 4;

int Parameter(ProgramWriter& w, Shape shape) {
  return w.Input(std::move(shape), ir::DType::kF32, ir::InputKind::kParameter);
}

int Linear(ProgramWriter& w, int x, int from, int to) {
  int weight = Parameter(w, {to, from}), bias = Parameter(w, {to});
  return w.Call("aten.linear.default", {{"input", T(x)}, {"weight", T(weight)}, {"bias", T(bias)}}, {1, kRows, to});
}

int Norm(ProgramWriter& w, int x) {
  int weight = Parameter(w, {kWidth}), bias = Parameter(w, {kWidth});
  return w.Call("aten.layer_norm.default",
                {{"input", T(x)}, {"normalized_shape", Shape{kWidth}}, {"weight", T(weight)}, {"bias", T(bias)}},
                {1, kRows, kWidth});
}

int Add(ProgramWriter& w, int a, int b, const Shape& shape) {
  return w.Call("aten.add.Tensor", {{"self", T(a)}, {"other", T(b)}}, shape);
}

// [1, rows, width] as [1, heads, rows, width of a head].
int Heads(ProgramWriter& w, int x) {
  const Shape split = {1, kRows, kHeads, kWidth / kHeads}, heads = {1, kHeads, kRows, kWidth / kHeads};
  int seen = w.Call("aten.view.default", {{"self", T(x)}, {"size", split}}, split);
  return w.Call("aten.transpose.int", {{"self", T(seen)}, {"dim0", I(1)}, {"dim1", I(2)}}, heads);
}

int Attention(ProgramWriter& w, int x) {
  const Shape scores_shape = {1, kHeads, kRows, kRows}, heads = {1, kHeads, kRows, kWidth / kHeads};
  int q = Heads(w, Linear(w, x, kWidth, kWidth)), k = Heads(w, Linear(w, x, kWidth, kWidth));
  int v = Heads(w, Linear(w, x, kWidth, kWidth));
  int turned = w.Call("aten.transpose.int", {{"self", T(k)}, {"dim0", I(2)}, {"dim1", I(3)}},
                      {1, kHeads, kWidth / kHeads, kRows});
  int scores = w.Call("aten.matmul.default", {{"self", T(q)}, {"other", T(turned)}}, scores_shape);
  int scaled = w.Call("aten.mul.Scalar", {{"self", T(scores)}, {"other", 0.25}}, scores_shape);
  int weights = w.Call("aten.softmax.int", {{"self", T(scaled)}, {"dim", I(-1)}}, scores_shape);
  int mixed = w.Call("aten.matmul.default", {{"self", T(weights)}, {"other", T(v)}}, heads);
  int back = w.Call("aten.transpose.int", {{"self", T(mixed)}, {"dim0", I(1)}, {"dim1", I(2)}},
                    {1, kRows, kHeads, kWidth / kHeads});
  int joined =
      w.Call("aten.reshape.default", {{"self", T(back)}, {"shape", Shape{1, kRows, kWidth}}}, {1, kRows, kWidth});
  return Linear(w, joined, kWidth, kWidth);
}

AtenProgram Layers(int operators) {
  ProgramWriter w;
  const Shape shape = {1, kRows, kWidth}, wide = {1, kRows, 2 * kWidth};
  int x = w.Input(shape);
  while (static_cast<int>(w.program.nodes.size()) < operators) {
    x = Add(w, x, Attention(w, Norm(w, x)), shape);
    int hidden = Linear(w, Norm(w, x), kWidth, 2 * kWidth);
    hidden = w.Call("aten.gelu.default", {{"self", T(hidden)}}, wide);
    x = Add(w, x, Linear(w, hidden, 2 * kWidth, kWidth), shape);
  }
  w.Output(x);
  return std::move(w.program);
}

AtenProgram Training(int operators) {
  ProgramWriter w;
  const Shape shape = {kRows, kWidth};
  auto times = [&](int a, int b) { return w.Call("aten.mul.Tensor", {{"self", T(a)}, {"other", T(b)}}, shape); };
  auto product = [&](int a, int matrix) {
    return w.Call("aten.mm.default", {{"self", T(a)}, {"mat2", T(matrix)}}, shape);
  };
  std::vector<int> matrices, values = {w.Input(shape)};
  // Three operators forward and five backward a step.
  for (int step = 0; step < operators / 8; ++step) {
    matrices.push_back(Parameter(w, {kWidth, kWidth}));
    int moved = w.Call("aten.tanh.default", {{"self", T(product(values.back(), matrices.back()))}}, shape);
    values.push_back(Add(w, moved, values.back(), shape));
  }
  int gradient = values.back();
  for (size_t step = matrices.size(); step-- > 0;) {
    int slope = times(values[step], values[step + 1]);
    int through = times(gradient, slope);
    int turned = w.Call("aten.t.default", {{"self", T(matrices[step])}}, {kWidth, kWidth});
    gradient = Add(w, gradient, product(through, turned), shape);
    w.Output(w.Call("aten.sum.dim_IntList", {{"self", T(through)}, {"dim", Shape{0}}}, {kWidth}));
  }
  w.Output(gradient);
  return std::move(w.program);
}

AtenProgram Optimizer(int operators) {
  ProgramWriter w;
  const Shape shape = {kWidth};
  int rate = w.Input({});
  while (static_cast<int>(w.program.nodes.size()) < operators) {
    int parameter = Parameter(w, shape), gradient = w.Input(shape), mean = w.Input(shape);
    int kept = w.Call("aten.mul.Scalar", {{"self", T(mean)}, {"other", 0.9}}, shape);
    int fresh = w.Call("aten.mul.Scalar", {{"self", T(gradient)}, {"other", 0.1}}, shape);
    int updated = Add(w, kept, fresh, shape);
    int size = w.Call("aten.abs.default", {{"self", T(updated)}}, shape);
    int scaled = w.Call("aten.div.Tensor", {{"self", T(updated)}, {"other", T(size)}}, shape);
    int moved = w.Call("aten.mul.Tensor", {{"self", T(scaled)}, {"other", T(rate)}}, shape);
    w.Output(updated);
    w.Output(w.Call("aten.sub.Tensor", {{"self", T(parameter)}, {"other", T(moved)}}, shape));
  }
  return std::move(w.program);
}

}  // namespace

AtenProgram MakeLargeProgram(const std::string& kind, int operators) {
  if (kind == "training") return Training(operators);
  return kind == "optimizer" ? Optimizer(operators) : Layers(operators);
}

std::vector<std::string> LargeProgramKinds() { return {"layers", "training", "optimizer"}; }

}  // namespace preheat::testing
