#include "kernels/library/onednn/shapes.h"

#include <algorithm>

namespace preheat::onednn {
namespace {

constexpr int32_t kBF16 = 7, kF32 = 8;  // plan.fbs DType

// Sizes of the batch dimensions and of the rows, and every tensor's strides in them (its columns apart).
struct Outer {
  Dims sizes;
  std::vector<Dims> strides;  // one a tensor
};

// Whether dimension d and the next are one in every tensor.
bool Joinable(const Outer& outer, size_t d) {
  return std::all_of(outer.strides.begin(), outer.strides.end(),
                     [&](const Dims& strides) { return strides[d] == strides[d + 1] * outer.sizes[d + 1]; });
}

void Join(Outer& outer, size_t d) {
  outer.sizes[d + 1] *= outer.sizes[d];
  outer.sizes.erase(outer.sizes.begin() + d);
  for (Dims& strides : outer.strides) strides.erase(strides.begin() + d);
}

void Drop(Outer& outer, size_t d) {
  outer.sizes.erase(outer.sizes.begin() + d);
  for (Dims& strides : outer.strides) strides.erase(strides.begin() + d);
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
  const int rank = c.rank, batch = rank - 2;
  const int64_t m = c.sizes[rank - 2], n = c.sizes[rank - 1], k = a.sizes[rank - 1];
  std::vector<const preheat_lib_tensor*> tensors = {&c, &a, &b};
  for (int i = 0; i < call.num_epilogue; ++i) {
    if (call.epilogue[i].op == PREHEAT_LIB_RESIDUAL) tensors.push_back(&call.epilogue[i].operand);
  }
  Outer outer;
  outer.sizes.assign(c.sizes, c.sizes + batch);
  for (const preheat_lib_tensor* t : tensors) outer.strides.emplace_back(t->strides, t->strides + batch);
  for (size_t d = outer.sizes.size(); d-- > 0;) {
    if (outer.sizes[d] == 1) Drop(outer, d);
  }
  for (size_t d = outer.sizes.size(); d-- > 1;) {
    if (Joinable(outer, d - 1)) Join(outer, d - 1);
  }
  // The last batch dimension and the rows, when b does not move with either.
  int64_t rows = m;
  Dims row_strides;
  for (const preheat_lib_tensor* t : tensors) row_strides.push_back(t->strides[rank - 2]);
  while (!outer.sizes.empty() && outer.strides[2].back() == 0) {
    bool joins = true;
    for (size_t t = 0; t < tensors.size(); ++t) {
      joins = joins && (t == 2 || rows == 1 || outer.strides[t].back() == row_strides[t] * rows);
    }
    if (!joins) break;
    if (rows == 1) {
      for (size_t t = 0; t < tensors.size(); ++t) row_strides[t] = outer.strides[t].back();
    }
    rows *= outer.sizes.back();
    Drop(outer, outer.sizes.size() - 1);
  }
  // Broadcast batches.
  const auto sizes_of = [&](size_t t) {
    Dims sizes = outer.sizes;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (outer.strides[t][d] == 0) sizes[d] = 1;
    }
    return sizes;
  };
  MatMulShape shape;
  shape.c_sizes = With(outer.sizes, {rows, n});
  shape.c_strides = With(outer.strides[0], {row_strides[0], c.strides[rank - 1]});
  shape.a_sizes = With(sizes_of(1), {rows, k});
  shape.a_strides = With(outer.strides[1], {row_strides[1], a.strides[rank - 1]});
  shape.b_sizes = With(sizes_of(2), {k, n});
  shape.b_strides = With(outer.strides[2], {b.strides[rank - 2], b.strides[rank - 1]});
  size_t t = 3;
  for (int i = 0; i < call.num_epilogue; ++i) {
    Dims strides;
    if (call.epilogue[i].op == PREHEAT_LIB_RESIDUAL) {
      strides = With(outer.strides[t], {row_strides[t], tensors[t]->strides[rank - 1]});
      ++t;
    }
    shape.residual_strides.push_back(strides);
  }
  return shape;
}

}  // namespace preheat::onednn
