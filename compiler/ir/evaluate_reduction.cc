#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/ir/evaluate_ops.h"
#include "compiler/support/status_macros.h"

namespace preheat::ir {
namespace {

// The pointwise operator that a reduction or scan repeats.
Op Step(Op op) {
  switch (op) {
    case Op::kReduceSum:
    case Op::kScanSum: return Op::kAdd;
    case Op::kReduceProd:
    case Op::kScanProd: return Op::kMul;
    case Op::kReduceMax:
    case Op::kScanMax: return Op::kMax;
    case Op::kReduceMin:
    case Op::kScanMin: return Op::kMin;
    case Op::kReduceAny: return Op::kOr;
    default: return Op::kAnd;
  }
}

// For each element of x, the position in the result without `dims`.
std::vector<int64_t> Targets(const HostTensor& x, absl::Span<const int64_t> dims, const HostTensor& out) {
  std::vector<int64_t> strides(x.shape.size(), 0);
  std::vector<int64_t> out_strides = HostStrides(out.shape);
  size_t next = 0;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    bool dropped = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    if (!dropped) strides[d] = out_strides[next++];
  }
  std::vector<int64_t> targets(x.elements());
  ForEachPosition(x.shape, [&](int64_t i, absl::Span<const int64_t> at) {
    for (size_t d = 0; d < at.size(); ++d) targets[i] += at[d] * strides[d];
  });
  return targets;
}

// Starts from the first element, so that maxima need no least value; sums and products of nothing are 0 and 1.
// Partial results stay doubles: only the end is rounded.
template <typename T, typename Get, typename Set, typename Apply>
absl::Status Fold(Evaluation& e, Op step, Get get, Set set, Apply apply) {
  std::vector<int64_t> targets = Targets(e.in(0), e.node.Ints("dims"), e.out());
  T empty = step == Op::kMul || step == Op::kAnd ? 1 : 0;
  if (targets.empty() && e.out().elements() > 0 && (step == Op::kMax || step == Op::kMin)) {
    return absl::OutOfRangeError("a maximum or minimum over nothing");
  }
  std::vector<T> partial(e.out().elements(), empty);
  std::vector<bool> started(partial.size(), false);
  for (size_t i = 0; i < targets.size(); ++i) {
    int64_t t = targets[i];
    if (!started[t]) {
      partial[t] = get(i);
      started[t] = true;
      continue;
    }
    ASSIGN_OR_RETURN(partial[t], apply(partial[t], get(i)));
  }
  for (size_t t = 0; t < partial.size(); ++t) set(t, partial[t]);
  return absl::OkStatus();
}

absl::Status EvaluateFold(Evaluation& e) {
  const HostTensor& x = e.in(0);
  HostTensor& out = e.out();
  Op step = Step(e.node.op());
  if (IsFloat(x.dtype)) {
    return Fold<double>(
        e, step, [&](int64_t i) { return x.Float(i); }, [&](int64_t i, double v) { out.SetFloat(i, v); },
        [&](double a, double b) { return ApplyFloat(step, x.dtype, a, b); });
  }
  return Fold<int64_t>(
      e, step, [&](int64_t i) { return x.Int(i); }, [&](int64_t i, int64_t v) { out.SetInt(i, v); },
      [&](int64_t a, int64_t b) { return ApplyInt(step, x.dtype, a, b); });
}

// a before b in ascending order; NaN is largest.
bool Less(const HostTensor& x, int64_t a, int64_t b) {
  if (!IsFloat(x.dtype)) return x.Int(a) < x.Int(b);
  double u = x.Float(a), v = x.Float(b);
  if (std::isnan(v)) return !std::isnan(u);
  return u < v;
}

// Calls f(positions along `dim` of one row) for each row.
template <typename F>
void ForEachRow(const HostTensor& x, int64_t dim, F f) {
  std::vector<int64_t> strides = HostStrides(x.shape);
  std::vector<int64_t> outer = x.shape;
  int64_t length = outer[dim];
  outer[dim] = 1;
  if (length == 0) return;
  ForEachPosition(outer, [&](int64_t, absl::Span<const int64_t> at) {
    std::vector<int64_t> row(length, 0);
    for (size_t d = 0; d < at.size(); ++d) row[0] += at[d] * strides[d];
    for (int64_t i = 1; i < length; ++i) row[i] = row[0] + i * strides[dim];
    f(row);
  });
}

absl::Status EvaluateArg(Evaluation& e) {
  const HostTensor& x = e.in(0);
  bool max = e.node.op() == Op::kArgMax;
  if (x.shape[e.node.Int("dim")] == 0) return absl::OutOfRangeError("the position of a maximum over nothing");
  int64_t next = 0;  // rows come in the order of the result
  ForEachRow(x, e.node.Int("dim"), [&](const std::vector<int64_t>& row) {
    int64_t best = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      if (IsFloat(x.dtype) && std::isnan(x.Float(row[i]))) {
        best = static_cast<int64_t>(i);
        break;
      }
      if (max ? Less(x, row[best], row[i]) : Less(x, row[i], row[best])) best = static_cast<int64_t>(i);
    }
    e.out().SetInt(next++, best);
  });
  return absl::OkStatus();
}

absl::Status EvaluateScan(Evaluation& e) {
  const HostTensor& x = e.in(0);
  HostTensor& out = e.out();
  Op step = Step(e.node.op());
  absl::Status status;
  ForEachRow(x, e.node.Int("dim"), [&](const std::vector<int64_t>& row) {
    double sum = 0;
    int64_t whole = 0;
    for (size_t i = 0; i < row.size() && status.ok(); ++i) {
      if (IsFloat(x.dtype)) {
        absl::StatusOr<double> next = i == 0 ? x.Float(row[i]) : ApplyFloat(step, x.dtype, sum, x.Float(row[i]));
        status = next.status();
        out.SetFloat(row[i], sum = next.value_or(0));
      } else {
        absl::StatusOr<int64_t> next = i == 0 ? x.Int(row[i]) : ApplyInt(step, x.dtype, whole, x.Int(row[i]));
        status = next.status();
        out.SetInt(row[i], whole = next.value_or(0));
      }
    }
  });
  return status;
}

absl::Status EvaluateSort(Evaluation& e) {
  const HostTensor& x = e.in(0);
  bool descending = e.node.Int("descending") != 0;
  ForEachRow(x, e.node.Int("dim"), [&](const std::vector<int64_t>& row) {
    std::vector<int64_t> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return descending ? Less(x, row[b], row[a]) : Less(x, row[a], row[b]);
    });
    for (size_t i = 0; i < row.size(); ++i) {
      e.out(0).CopyElement(row[i], x, row[order[i]]);
      e.out(1).SetInt(row[i], order[i]);
    }
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status EvaluateReduction(Evaluation& e) {
  Op op = e.node.op();
  if (op == Op::kSort) return EvaluateSort(e);
  if (op == Op::kArgMax || op == Op::kArgMin) return EvaluateArg(e);
  return IsReduction(op) ? EvaluateFold(e) : EvaluateScan(e);
}

}  // namespace preheat::ir
