#ifndef PREHEAT_KERNELS_LIBRARY_GEMM_H_
#define PREHEAT_KERNELS_LIBRARY_GEMM_H_

#include <cstdint>
#include <vector>

#include "kernels/library/call.h"

namespace preheat::library {

// Every library call is a batch of matrix products result[m, n] = sum over k of left[m, k] * right[n, k], whose
// operands are found in memory by a rule. Matrices have rules of strides; convolutions read windows, and a product that
// falls into the padding or between strides is zero.

// Where element (row, k) of an operand lies: offset row_offset[row] + k_offset[k], in elements, and for each window
// dimension d the position row_position[d][row] + k_position[d][k]: zero when it is not a multiple of step[d] or when
// the quotient is outside [0, size[d]), else it adds quotient * stride[d].
struct OperandRule {
  std::vector<int64_t> row_offset, k_offset;
  int windows = 0;
  std::vector<int64_t> row_position[3], k_position[3];
  int64_t size[3] = {1, 1, 1}, step[3] = {1, 1, 1}, stride[3] = {0, 0, 0};
  // Not 0: k runs over channels and within them over so many taps of a window, and k_position repeats for every
  // channel.
  int64_t taps = 0;
  std::vector<int64_t> batch_offset;
};

// Where element (m, n) of the result or of a residual lies.
struct ResultRule {
  std::vector<int64_t> m_offset, n_offset;
  std::vector<int64_t> batch_offset;
};

struct GemmPlan {
  int64_t m = 0, n = 0, k = 0, batch = 0;
  OperandRule left, right;
  int left_operand = 0;  // which of the call's operands `left` reads; `right` reads the other
  ResultRule result;
  std::vector<ResultRule> residuals;  // one an epilogue; empty but for residuals
  bool bias_follows_m = false;        // a bias has one value for each m (plus bias_base of the batch), else for each n
  std::vector<int64_t> bias_base;     // one a batch
};

// The products that a checked and normalized call stands for.
GemmPlan PlanGemm(const CallSpec& call);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_GEMM_H_
