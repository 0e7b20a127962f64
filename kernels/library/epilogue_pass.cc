#include "kernels/library/epilogue_pass.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/support/status_macros.h"
#include "kernels/device/parallel_for.h"
#include "kernels/library/epilogue.h"

namespace preheat::library {
namespace {

// Where one tensor's rows begin and how far its elements are apart, for every row of the result (all dimensions but the
// last).
struct Rows {
  std::vector<int64_t> begin;
  int64_t step = 0;
};

Rows RowsOf(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  Rows rows{{0}, strides.back()};
  for (size_t d = 0; d + 1 < sizes.size(); ++d) {
    std::vector<int64_t> next;
    next.reserve(rows.begin.size() * static_cast<size_t>(sizes[d]));
    for (int64_t base : rows.begin) {
      for (int64_t i = 0; i < sizes[d]; ++i) next.push_back(base + i * strides[d]);
    }
    rows.begin = std::move(next);
  }
  return rows;
}

class EpiloguePass : public PreparedCall {
 public:
  EpiloguePass(std::unique_ptr<PreparedCall> product, const CallSpec& call) : product_(std::move(product)) {
    const TensorSpec& result = call.result;
    const int channel = call.op == PREHEAT_LIB_MATMUL ? result.rank() - 1 : 1;
    result_ = RowsOf(result.sizes, result.strides);
    width_ = result.sizes.back();
    for (const EpilogueSpec& step : call.epilogue) {
      ops_.push_back(step.op);
      // A bias is a tensor of the result's shape that moves along its channels only.
      std::vector<int64_t> strides =
          step.op == PREHEAT_LIB_RESIDUAL ? step.operand.strides : std::vector<int64_t>(result.sizes.size(), 0);
      if (step.op == PREHEAT_LIB_BIAS) strides[channel] = step.operand.strides[0];
      operands_.push_back(TakesOperand(step.op) ? RowsOf(result.sizes, strides) : Rows());
    }
  }

  absl::string_view provider() const override { return product_->provider(); }
  int64_t scratch_bytes() const override { return product_->scratch_bytes(); }
  std::string pack_key(int operand) const override { return product_->pack_key(operand); }
  int64_t packed_bytes(int operand) const override { return product_->packed_bytes(operand); }
  absl::Status Pack(int operand, const void* from, void* to) const override {
    return product_->Pack(operand, from, to);
  }

  absl::Status Run(const preheat_lib_addresses& addresses) const override {
    RETURN_IF_ERROR(product_->Run(addresses));
    constexpr int64_t kWorthAThread = 1 << 14;  // elements
    ParallelFor(static_cast<int64_t>(result_.begin.size()), kWorthAThread / std::max<int64_t>(1, width_) + 1,
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t row = begin; row < end; ++row) RunRow(addresses, row);
                });
    return absl::OkStatus();
  }

 private:
  void RunRow(const preheat_lib_addresses& addresses, int64_t row) const {
    float* result = static_cast<float*>(addresses.result) + result_.begin[row];
    const int64_t step = result_.step;
    for (size_t e = 0; e < ops_.size(); ++e) {
      const float* operand = static_cast<const float*>(addresses.epilogue[e]);
      if (!TakesOperand(ops_[e])) {
        if (step == 1) {
          for (int64_t i = 0; i < width_; ++i) result[i] = Activate(ops_[e], result[i]);
        } else {
          for (int64_t i = 0; i < width_; ++i) result[i * step] = Activate(ops_[e], result[i * step]);
        }
        continue;
      }
      operand += operands_[e].begin[row];
      if (step == 1 && operands_[e].step == 1) {
        for (int64_t i = 0; i < width_; ++i) result[i] += operand[i];
      } else {
        for (int64_t i = 0; i < width_; ++i) result[i * step] += operand[i * operands_[e].step];
      }
    }
  }

  const std::unique_ptr<PreparedCall> product_;
  Rows result_;
  int64_t width_ = 0;
  std::vector<int32_t> ops_;
  std::vector<Rows> operands_;  // one an epilogue
};

}  // namespace

std::unique_ptr<PreparedCall> WithEpiloguePass(std::unique_ptr<PreparedCall> product, const CallSpec& call) {
  return std::make_unique<EpiloguePass>(std::move(product), call);
}

}  // namespace preheat::library
