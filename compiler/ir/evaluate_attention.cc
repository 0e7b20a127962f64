#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "compiler/ir/evaluate_ops.h"

namespace preheat::ir {
namespace {

// Matrices of a stack, row after row.
using Numbers = std::vector<double>;

Numbers NumbersOf(const HostTensor& t) {
  Numbers numbers(t.elements());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = t.Float(static_cast<int64_t>(i));
  return numbers;
}

void Store(const Numbers& numbers, HostTensor& out) {
  for (size_t i = 0; i < numbers.size(); ++i) out.SetFloat(static_cast<int64_t>(i), numbers[i]);
}

int64_t Matrices(const HostTensor& t) {
  int64_t count = 1;
  for (size_t i = 0; i + 2 < t.shape.size(); ++i) count *= t.shape[i];
  return count;
}

struct Sizes {
  explicit Sizes(const Evaluation& e)
      : m(e.in(0).shape[e.in(0).shape.size() - 2]),
        e(e.in(0).shape.back()),
        n(e.in(1).shape.back()),
        batch(Matrices(e.in(0))),
        stacked(Matrices(e.in(1))) {}
  // The matrix of keys and values that one of the queries' sees. Heads lie side by side, so groups do.
  int64_t KeysOf(int64_t matrix) const { return matrix * stacked / batch; }
  int64_t m, e, n, batch, stacked;
};

// The masked scores.
Numbers Scores(const Evaluation& e, const Sizes& s) {
  Numbers scores(s.batch * s.m * s.n, 0);
  for (int64_t at = 0; at < static_cast<int64_t>(scores.size()); ++at) {
    const int64_t matrix = at / (s.m * s.n), i = at / s.n % s.m, j = at % s.n;
    for (int64_t c = 0; c < s.e; ++c) {
      scores[at] += e.in(0).Float((matrix * s.m + i) * s.e + c) * e.in(1).Float((s.KeysOf(matrix) * s.e + c) * s.n + j);
    }
    scores[at] *= e.node.Double("scale");
    int next = 2;
    for (const std::string& step : e.node.Strings("epilogue")) {
      if (step == "causal" && j > i) scores[at] = -INFINITY;
      if (step != "mask") continue;
      const HostTensor& mask = e.in(next++);
      if (mask.dtype != DType::kBool) scores[at] += mask.Float(at);
      if (mask.dtype == DType::kBool && mask.Int(at) == 0) scores[at] = -INFINITY;
    }
  }
  return scores;
}

// sums[x, y] += over z: left[x, z] * right[z, y] of every matrix of left; `transposed`: left is [z, x]. The stacks may
// differ in length: a matrix of the shorter one stands for a group of the longer one's.
Numbers Product(const Numbers& left, const Numbers& right, const Sizes& s, int64_t x, int64_t z, int64_t y,
                bool transposed = false) {
  const int64_t others = static_cast<int64_t>(right.size()) / std::max<int64_t>(1, z * y);
  const int64_t results = transposed ? s.stacked : s.batch;
  Numbers sums(results * x * y, 0);
  for (int64_t at = 0; at < s.batch * x * y; ++at) {
    const int64_t matrix = at / (x * y), row = at / y % x, column = at % y;
    double sum = 0;
    for (int64_t k = 0; k < z; ++k) {
      const int64_t l = transposed ? (matrix * z + k) * x + row : (matrix * x + row) * z + k;
      sum += left[l] * right[(matrix * others / s.batch * z + k) * y + column];
    }
    sums[(matrix * results / s.batch * x + row) * y + column] += sum;
  }
  return sums;
}

void Forward(Evaluation& e) {
  const Sizes s(e);
  const std::vector<std::string>& steps = e.node.Strings("epilogue");
  const bool safe = std::find(steps.begin(), steps.end(), "safe_softmax") != steps.end();
  Numbers scores = Scores(e, s), log_sums(s.batch * s.m);
  for (int64_t i = 0; i < s.batch * s.m; ++i) {
    double* row = scores.data() + i * s.n;
    double max = -INFINITY, total = 0;
    for (int64_t j = 0; j < s.n; ++j) max = std::max(max, row[j]);
    for (int64_t j = 0; j < s.n; ++j) total += row[j] = max == -INFINITY ? 0 : std::exp(row[j] - max);
    for (int64_t j = 0; j < s.n; ++j) row[j] = total == 0 && safe ? 0 : row[j] / total;
    log_sums[i] = std::log(total) + max;
  }
  const HostTensor& v = e.in(static_cast<int>(e.node.operands().size()) - 1);
  Store(Product(scores, NumbersOf(v), s, s.m, s.n, v.shape.back()), e.out());
  if (e.results.size() > 1) Store(log_sums, e.out(1));
}

void Backward(Evaluation& e) {
  const Sizes s(e);
  const int last = static_cast<int>(e.node.operands().size()) - 1;
  const HostTensor& v = e.in(last - 3);
  const int64_t f = v.shape.back();
  const Numbers g = NumbersOf(e.in(last - 2)), output = NumbersOf(e.in(last - 1));
  Numbers weights = Scores(e, s), products(weights.size(), 0);
  for (int64_t at = 0; at < static_cast<int64_t>(weights.size()); ++at) {
    const int64_t row = at / s.n, column = s.KeysOf(at / (s.m * s.n)) * s.n + at % s.n;
    weights[at] = weights[at] == -INFINITY ? 0 : std::exp(weights[at] - e.in(last).Float(row));
    for (int64_t c = 0; c < f; ++c) products[at] += g[row * f + c] * (v.Float(column * f + c) - output[row * f + c]);
    products[at] *= weights[at] * e.node.Double("scale");
  }
  Numbers keys(s.stacked * s.n * s.e);
  for (int64_t at = 0; at < static_cast<int64_t>(keys.size()); ++at) {
    const int64_t matrix = at / (s.n * s.e), j = at / s.e % s.n, c = at % s.e;
    keys[at] = e.in(1).Float((matrix * s.e + c) * s.n + j);
  }
  Store(Product(products, keys, s, s.m, s.n, s.e), e.out());
  Store(Product(products, NumbersOf(e.in(0)), s, s.n, s.m, s.e, true), e.out(1));
  Store(Product(weights, g, s, s.n, s.m, f, true), e.out(2));
}

}  // namespace

absl::Status EvaluateAttention(Evaluation& e) {
  e.node.String("base") == "attention" ? Forward(e) : Backward(e);
  return absl::OkStatus();
}

}  // namespace preheat::ir
