#include "kernels/library/onednn/shapes.h"

#include <algorithm>

namespace preheat::onednn {
namespace {

constexpr int32_t kBF16 = 7, kF32 = 8;  // plan.fbs DType

using Tensors = std::vector<const preheat_lib_tensor*>;
constexpr size_t kResult = 0, kLeft = 1, kRight = 2, kResiduals = 3;  // places among the tensors of a product

Tensors TensorsOf(const preheat_lib_call& call) {
  Tensors tensors = {&call.result, &call.operands[0], &call.operands[1]};
  for (int i = 0; i < call.num_epilogue; ++i) {
    if (call.epilogue[i].op == PREHEAT_LIB_RESIDUAL) tensors.push_back(&call.epilogue[i].operand);
  }
  return tensors;
}

// Batch dimensions, and every tensor's strides in them.
struct Batches {
  Dims sizes;
  std::vector<Dims> strides;  // one a tensor
};

// Rows of the result, and every tensor's stride from one to the next; the right operand's means nothing.
struct Rows {
  int64_t count;
  Dims strides;
};

// Whether dimension d and the next are one in every tensor.
bool Joinable(const Batches& batches, size_t d) {
  return std::all_of(batches.strides.begin(), batches.strides.end(),
                     [&](const Dims& strides) { return strides[d] == strides[d + 1] * batches.sizes[d + 1]; });
}

void Drop(Batches& batches, size_t d) {
  batches.sizes.erase(batches.sizes.begin() + d);
  for (Dims& strides : batches.strides) strides.erase(strides.begin() + d);
}

void Join(Batches& batches, size_t d) {
  batches.sizes[d + 1] *= batches.sizes[d];
  Drop(batches, d);
}

// As few as the strides allow.
Batches BatchesOf(const Tensors& tensors) {
  const preheat_lib_tensor& c = *tensors[kResult];
  const int rank = c.rank - 2;
  Batches batches;
  batches.sizes.assign(c.sizes, c.sizes + rank);
  for (const preheat_lib_tensor* t : tensors) batches.strides.emplace_back(t->strides, t->strides + rank);
  for (size_t d = batches.sizes.size(); d-- > 0;) {
    if (batches.sizes[d] == 1) Drop(batches, d);
  }
  for (size_t d = batches.sizes.size(); d-- > 1;) {
    if (Joinable(batches, d - 1)) Join(batches, d - 1);
  }
  return batches;
}

Rows RowsOf(const Tensors& tensors) {
  const preheat_lib_tensor& c = *tensors[kResult];
  Rows rows{c.sizes[c.rank - 2], {}};
  for (const preheat_lib_tensor* t : tensors) rows.strides.push_back(t->strides[c.rank - 2]);
  return rows;
}

// Whether the last batch dimension goes on where the rows end, and the right operand moves with neither.
bool GoesOnWithRows(const Batches& batches, const Rows& rows) {
  if (batches.sizes.empty() || batches.strides[kRight].back() != 0) return false;
  if (rows.count == 1) return true;
  for (size_t t = 0; t < batches.strides.size(); ++t) {
    if (t != kRight && batches.strides[t].back() != rows.strides[t] * rows.count) return false;
  }
  return true;
}

void JoinWithRows(Batches& batches, Rows& rows) {
  while (GoesOnWithRows(batches, rows)) {
    for (size_t t = 0; t < batches.strides.size() && rows.count == 1; ++t) rows.strides[t] = batches.strides[t].back();
    rows.count *= batches.sizes.back();
    Drop(batches, batches.sizes.size() - 1);
  }
}

// What the tensor has of them: size 1 where it is broadcast.
Dims SizesIn(const Batches& batches, size_t tensor) {
  Dims sizes = batches.sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (batches.strides[tensor][d] == 0) sizes[d] = 1;
  }
  return sizes;
}

Dims With(Dims outer, std::initializer_list<int64_t> more) {
  outer.insert(outer.end(), more);
  return outer;
}

}  // namespace

dnnl::memory::data_type TypeOf(int32_t dtype) {
  if (dtype == kF32) return dnnl::memory::data_type::f32;
  if (dtype == kBF16) return dnnl::memory::data_type::bf16;
  throw Declined{"dtype"};
}

// Strides of dimensions of one element mean nothing to the caller and much to oneDNN, which recognizes layouts by their
// strides. So they become those of the layout that the others have: row-major, if that fits, else outermost.
Desc Strided(const Dims& sizes, Dims strides, dnnl::memory::data_type type) {
  int64_t dense = 1, reach = 1;
  bool row_major = true;
  for (size_t i = sizes.size(); i-- > 0; dense *= sizes[i]) {
    if (sizes[i] == 1) continue;
    row_major = row_major && strides[i] == dense;
    reach = std::max(reach, sizes[i] * strides[i]);
  }
  if (row_major) return Dense(sizes, type);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) strides[i] = reach;
  }
  return Desc(sizes, type, strides);
}

Desc Dense(const Dims& sizes, dnnl::memory::data_type type) {
  Dims strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return Desc(sizes, type, strides);
}

MatMulShape JoinBatches(const preheat_lib_call& call) {
  const preheat_lib_tensor &a = call.operands[0], &b = call.operands[1], &c = call.result;
  const int row = c.rank - 2, column = c.rank - 1;
  const Tensors tensors = TensorsOf(call);
  Batches batches = BatchesOf(tensors);
  Rows rows = RowsOf(tensors);
  JoinWithRows(batches, rows);
  const auto strides = [&](size_t t) {
    return With(batches.strides[t], {t == kRight ? b.strides[row] : rows.strides[t], tensors[t]->strides[column]});
  };
  MatMulShape shape;
  shape.c_sizes = With(batches.sizes, {rows.count, c.sizes[column]});
  shape.c_strides = strides(kResult);
  shape.a_sizes = With(SizesIn(batches, kLeft), {rows.count, a.sizes[column]});
  shape.a_strides = strides(kLeft);
  shape.b_sizes = With(SizesIn(batches, kRight), {a.sizes[column], c.sizes[column]});
  shape.b_strides = strides(kRight);
  size_t residual = kResiduals;
  for (int i = 0; i < call.num_epilogue; ++i)
    shape.residual_strides.push_back(call.epilogue[i].op == PREHEAT_LIB_RESIDUAL ? strides(residual++) : Dims());
  return shape;
}

}  // namespace preheat::onednn
