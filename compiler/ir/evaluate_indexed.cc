#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/ir/evaluate_ops.h"
#include "compiler/support/status_macros.h"

namespace preheat::ir {
namespace {

using Position = absl::Span<const int64_t>;

// The node's index number i in [0, size).
absl::StatusOr<int64_t> Wrapped(const Evaluation& e, int64_t i, int64_t size) {
  int64_t value = e.in(1).Int(i);
  if (value < (e.node.CountsFromEnd() ? -size : 0) || value >= size) {
    return absl::OutOfRangeError(absl::StrCat("the index ", value, " is out of range for a size of ", size));
  }
  return value < 0 ? value + size : value;
}

int64_t Offset(Position at, const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
  return offset;
}

// Where element `at` of take's result (or put_rows' src) lies in x.
absl::StatusOr<int64_t> RowElement(const Evaluation& e, Position at) {
  const HostTensor &x = e.in(0), &index = e.in(1);
  size_t dim = static_cast<size_t>(e.node.Int("dim"));
  size_t rank = index.shape.size();
  ASSIGN_OR_RETURN(int64_t row, Wrapped(e, Offset(at.subspan(dim, rank), HostStrides(index.shape)), x.shape[dim]));
  std::vector<int64_t> from(at.begin(), at.begin() + dim);
  from.push_back(row);
  from.insert(from.end(), at.begin() + dim + rank, at.end());
  return Offset(from, HostStrides(x.shape));
}

// Where element i, at `at`, of gather's index lies in x.
absl::StatusOr<int64_t> GatheredElement(const Evaluation& e, int64_t i, Position at) {
  const HostTensor& x = e.in(0);
  int64_t dim = e.node.Int("dim");
  std::vector<int64_t> from(at.begin(), at.end());
  ASSIGN_OR_RETURN(from[dim], Wrapped(e, i, x.shape[dim]));
  return Offset(from, HostStrides(x.shape));
}

// x's element j takes src's element i.
absl::Status Put(HostTensor& out, int64_t j, const HostTensor& src, int64_t i, const std::string& reduce) {
  if (reduce == "set") {
    out.CopyElement(j, src, i);
    return absl::OkStatus();
  }
  Op op = reduce == "add" ? Op::kAdd : reduce == "mul" ? Op::kMul : reduce == "max" ? Op::kMax : Op::kMin;
  return Apply(op, out, j, out, j, src, i);
}

}  // namespace

absl::Status EvaluateIndexed(Evaluation& e) {
  Op op = e.node.op();
  HostTensor& out = e.out();
  bool rows = op == Op::kTake || op == Op::kPutRows;
  bool writes = op == Op::kScatter || op == Op::kPutRows;
  if (writes) out = e.in(0);
  absl::Status status;
  ForEachPosition(writes ? e.in(2).shape : out.shape, [&](int64_t i, Position at) {
    absl::StatusOr<int64_t> j = rows ? RowElement(e, at) : GatheredElement(e, i, at);
    absl::Status done = j.status();
    if (j.ok() && writes) done = Put(out, *j, e.in(2), i, e.node.String("reduce"));
    if (j.ok() && !writes) out.CopyElement(i, e.in(0), *j);
    if (status.ok()) status = done;
  });
  return status;
}

}  // namespace preheat::ir
