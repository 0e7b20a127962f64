#include "kernels/library/attention_parts.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace preheat::library {

Matrices::Matrices(const TensorSpec& t)
    : sizes(t.sizes.begin(), t.sizes.end() - 2),
      strides(t.strides.begin(), t.strides.end() - 2),
      row(t.strides[t.rank() - 2]),
      column(t.strides[t.rank() - 1]) {}

int64_t Matrices::Offset(int64_t number) const {
  int64_t offset = 0;
  for (size_t i = sizes.size(); i-- > 0; number /= sizes[i]) offset += number % sizes[i] * strides[i];
  return offset;
}

Matrices Matrices::Transposed() const {
  Matrices t = *this;
  std::swap(t.row, t.column);
  return t;
}

Masks::Masks(const CallSpec& call) {
  for (size_t i = 0; i < call.epilogue.size(); ++i) {
    const EpilogueSpec& step = call.epilogue[i];
    if (step.op == PREHEAT_LIB_MASK) {
      masks_.push_back({Matrices(step.operand), step.operand.dtype == static_cast<int32_t>(DType::kBool), i});
    }
    causal_ |= step.op == PREHEAT_LIB_CAUSAL;
  }
}

int64_t Masks::Seen(int64_t row, Span columns) const {
  return causal_ ? std::clamp<int64_t>(row + 1 - columns.begin, 0, columns.size) : columns.size;
}

void Masks::Apply(const void* const* epilogue, int64_t matrix, int64_t row, Span columns, float* scores) const {
  for (const Mask& mask : masks_) {
    const int64_t step = mask.at.column;
    const int64_t offset = mask.at.Offset(matrix) + row * mask.at.row + columns.begin * step;
    if (mask.chooses) {
      const uint8_t* from = static_cast<const uint8_t*>(epilogue[mask.epilogue]) + offset;
      for (int64_t j = 0; j < columns.size; ++j) {
        scores[j] = from[j * step] != 0 ? scores[j] : -std::numeric_limits<float>::infinity();
      }
      continue;
    }
    const float* from = static_cast<const float*>(epilogue[mask.epilogue]) + offset;
    if (step == 1) {
      for (int64_t j = 0; j < columns.size; ++j) scores[j] += from[j];
    } else {
      for (int64_t j = 0; j < columns.size; ++j) scores[j] += from[j * step];
    }
  }
}

namespace {

// By single elements, where rows do not lie in one piece.
void PackPanel(const float* from, const Matrices& m, int64_t rows, int64_t columns, int64_t width, float* to) {
  for (int64_t i = 0; i < rows; ++i, to += width) {
    for (int64_t c = 0; c < columns; ++c) to[c] = from[i * m.row + c * m.column];
    std::fill(to + columns, to + width, 0.0F);
  }
}

}  // namespace

void PackPanels(const AttentionKernel& kernel, const float* from, const Matrices& m, Span rows, int64_t columns,
                float* to) {
  for (int64_t j = 0; j < columns; j += kernel.nr, to += rows.size * kernel.nr) {
    const int64_t here = std::min<int64_t>(kernel.nr, columns - j);
    const float* panel = from + rows.begin * m.row + j * m.column;
    if (m.column == 1) {
      kernel.pack(rows.size, here, panel, m.row, to);
    } else if (m.row == 1) {
      kernel.pack_transposed(here, rows.size, panel, m.column, to);
    } else {
      PackPanel(panel, m, rows.size, here, kernel.nr, to);
    }
  }
}

void PackTransposedPanels(const AttentionKernel& kernel, const float* from, const Matrices& m, Span rows,
                          int64_t columns, float* to) {
  PackPanels(kernel, from + rows.begin * m.row, m.Transposed(), {0, columns}, rows.size, to);
}

void CopyRows(const AttentionKernel& kernel, const float* from, const Matrices& m, Span rows, int64_t columns,
              float scale, float* to) {
  from += rows.begin * m.row;
  for (int64_t i = 0; i < rows.size; ++i, from += m.row, to += columns) {
    if (m.column == 1) {
      kernel.copy(columns, from, scale, to);
    } else {
      for (int64_t c = 0; c < columns; ++c) to[c] = from[c * m.column] * scale;
    }
  }
}

void WriteRow(const AttentionKernel& kernel, const float* from, int64_t columns, float scale, const Matrices& m,
              int64_t row, float* to) {
  to += row * m.row;
  if (m.column == 1) return kernel.copy(columns, from, scale, to);
  for (int64_t c = 0; c < columns; ++c) to[c * m.column] = from[c] * scale;
}

}  // namespace preheat::library
