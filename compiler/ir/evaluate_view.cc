#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/ir/evaluate_ops.h"
#include "compiler/support/status_macros.h"

namespace preheat::ir {
namespace {

using Position = absl::Span<const int64_t>;

// Fills the result: `source(at, from)` sets `from`, a position in x, for the result's position `at`.
template <typename F>
void Pull(Evaluation& e, F source) {
  const HostTensor& x = e.in(0);
  std::vector<int64_t> strides = HostStrides(x.shape);
  std::vector<int64_t> from(x.shape.size());
  ForEachPosition(e.out().shape, [&](int64_t i, Position at) {
    source(at, from);
    int64_t j = 0;
    for (size_t d = 0; d < from.size(); ++d) j += from[d] * strides[d];
    e.out().CopyElement(i, x, j);
  });
}

void EvaluatePermute(Evaluation& e) {
  const std::vector<int64_t>& dims = e.node.Ints("dims");
  Pull(e, [&](Position at, std::vector<int64_t>& from) {
    for (size_t d = 0; d < dims.size(); ++d) from[dims[d]] = at[d];
  });
}

void EvaluateBroadcast(Evaluation& e) {
  const std::vector<int64_t>& shape = e.in(0).shape;
  Pull(e, [&](Position at, std::vector<int64_t>& from) {
    for (size_t d = 0; d < shape.size(); ++d) from[d] = shape[d] == 1 ? 0 : at[d];
  });
}

absl::StatusOr<std::vector<int64_t>> Values(Evaluation& e, const char* name) {
  std::vector<int64_t> values;
  for (const Expr& expr : e.node.Exprs(name)) {
    ASSIGN_OR_RETURN(int64_t value, ConcreteValue(expr, e.symbols));
    values.push_back(value);
  }
  return values;
}

absl::Status EvaluateSlice(Evaluation& e) {
  ASSIGN_OR_RETURN(std::vector<int64_t> starts, Values(e, "starts"));
  const std::vector<int64_t>& steps = e.node.Ints("steps");
  for (size_t d = 0; d < starts.size(); ++d) {
    int64_t size = e.out().shape[d];
    if (starts[d] < 0 || (size > 0 && starts[d] + (size - 1) * steps[d] >= e.in(0).shape[d])) {
      return absl::OutOfRangeError(absl::StrCat("dimension ", d, " has no such elements"));
    }
  }
  Pull(e, [&](Position at, std::vector<int64_t>& from) {
    for (size_t d = 0; d < starts.size(); ++d) from[d] = starts[d] + at[d] * steps[d];
  });
  return absl::OkStatus();
}

absl::Status EvaluatePad(Evaluation& e) {
  const HostTensor& x = e.in(0);
  HostTensor& out = e.out();
  ASSIGN_OR_RETURN(std::vector<int64_t> low, Values(e, "low"));
  ASSIGN_OR_RETURN(std::vector<int64_t> high, Values(e, "high"));
  for (size_t d = 0; d < low.size(); ++d) {
    if (low[d] < 0 || high[d] < 0) return absl::OutOfRangeError("a dimension is padded by less than nothing");
  }
  HostTensor value = HostTensor::Zeros(out.dtype, {1});
  Scalar scalar = e.node.ScalarAttr("value");
  IsFloat(out.dtype) ? value.SetFloat(0, std::get<double>(scalar)) : value.SetInt(0, std::get<int64_t>(scalar));
  std::vector<int64_t> strides = HostStrides(x.shape);
  ForEachPosition(out.shape, [&](int64_t i, Position at) {
    int64_t j = 0;
    bool inside = true;
    for (size_t d = 0; d < at.size(); ++d) {
      int64_t from = at[d] - low[d];
      inside = inside && from >= 0 && from < x.shape[d];
      j += from * strides[d];
    }
    inside ? out.CopyElement(i, x, j) : out.CopyElement(i, value, 0);
  });
  return absl::OkStatus();
}

void EvaluateFlip(Evaluation& e) {
  const std::vector<int64_t>& dims = e.node.Ints("dims");
  Pull(e, [&](Position at, std::vector<int64_t>& from) {
    from.assign(at.begin(), at.end());
    for (int64_t d : dims) from[d] = e.in(0).shape[d] - 1 - at[d];
  });
}

void EvaluateWindow(Evaluation& e) {
  int64_t dim = e.node.Int("dim"), step = e.node.Int("step"), dilation = e.node.Int("dilation");
  Pull(e, [&](Position at, std::vector<int64_t>& from) {
    from.assign(at.begin(), at.end() - 1);
    from[dim] = at[dim] * step + at.back() * dilation;
  });
}

void EvaluateConcat(Evaluation& e) {
  int64_t dim = e.node.Int("dim");
  std::vector<int64_t> strides = HostStrides(e.out().shape);
  int64_t start = 0;
  for (const HostTensor* part : e.operands) {
    ForEachPosition(part->shape, [&](int64_t i, Position at) {
      int64_t j = start * strides[dim];
      for (size_t d = 0; d < at.size(); ++d) j += at[d] * strides[d];
      e.out().CopyElement(j, *part, i);
    });
    start += part->shape[dim];
  }
}

}  // namespace

absl::Status EvaluateView(Evaluation& e) {
  switch (e.node.op()) {
    case Op::kReshape: e.out().data = e.in(0).data; break;
    case Op::kPermute: EvaluatePermute(e); break;
    case Op::kBroadcast: EvaluateBroadcast(e); break;
    case Op::kSlice: return EvaluateSlice(e);
    case Op::kPad: return EvaluatePad(e);
    case Op::kFlip: EvaluateFlip(e); break;
    case Op::kWindow: EvaluateWindow(e); break;
    case Op::kConcat: EvaluateConcat(e); break;
    default: return absl::InternalError("no view");
  }
  return absl::OkStatus();
}

}  // namespace preheat::ir
