#ifndef PREHEAT_KERNELS_LIBRARY_ATTENTION_PARTS_H_
#define PREHEAT_KERNELS_LIBRARY_ATTENTION_PARTS_H_

#include <cstdint>
#include <vector>

#include "kernels/library/call.h"
#include "kernels/library/micro_kernel.h"

namespace preheat::library {

// What attention and its gradient share: both walk through blocks of the scores, row by row.

// A stack of matrices in memory.
struct Matrices {
  explicit Matrices(const TensorSpec& t);

  // Elements before the matrix of that number.
  int64_t Offset(int64_t number) const;
  Matrices Transposed() const;

  std::vector<int64_t> sizes, strides;  // of the stack
  int64_t row, column;                  // strides
};

// Indices of a matrix's rows or columns.
struct Span {
  int64_t begin, size;
};

inline int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// What may hide scores, and how much of a row is seen.
class Masks {
 public:
  explicit Masks(const CallSpec& call);

  bool causal() const { return causal_; }
  // How many of the columns row `row` may see, those first.
  int64_t Seen(int64_t row, Span columns) const;
  // How many of them some row before `end` may see.
  int64_t SeenBefore(int64_t end, Span columns) const { return Seen(end - 1, columns); }
  // Applies the masks to the scores of a row and of those columns. `epilogue`: a call's addresses.
  void Apply(const void* const* epilogue, int64_t matrix, int64_t row, Span columns, float* scores) const;

 private:
  struct Mask {
    Matrices at;
    bool chooses;     // bool: false hides
    size_t epilogue;  // where its address is
  };
  std::vector<Mask> masks_;
  bool causal_ = false;
};

// Copies rows of a matrix at `from` (its first element) as panels for the kernel: nr columns of it, row after row, the
// last panel filled up with zeros: columns / nr panels of rows.size * nr floats.
void PackPanels(const AttentionKernel& kernel, const float* from, const Matrices& m, Span rows, int64_t columns,
                float* to);

// The same for the transposed matrix: panels of nr of its rows `rows`, column after column.
void PackTransposedPanels(const AttentionKernel& kernel, const float* from, const Matrices& m, Span rows,
                          int64_t columns, float* to);

// Copies rows, times `scale`, one after another.
void CopyRows(const AttentionKernel& kernel, const float* from, const Matrices& m, Span rows, int64_t columns,
              float scale, float* to);

// Copies `columns` elements of a row, times `scale`, to where row `row` of the matrix at `to` lies.
void WriteRow(const AttentionKernel& kernel, const float* from, int64_t columns, float scale, const Matrices& m,
              int64_t row, float* to);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_ATTENTION_PARTS_H_
