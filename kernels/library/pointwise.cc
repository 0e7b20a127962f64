#include "kernels/library/pointwise.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/device/parallel_for.h"
#include "kernels/library/epilogue.h"
#include "kernels/library/micro_kernel.h"

namespace preheat::library {
namespace {

constexpr int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
constexpr int64_t Divided(int64_t n, int64_t by) { return (n + by - 1) / by; }

constexpr int64_t kWorthAThread = 1 << 16;  // multiplications
constexpr int64_t kWorthACopy = 1 << 15;    // elements moved
constexpr int64_t kWorthTotals = 320;       // channels
constexpr int64_t kCacheLine = 64 / sizeof(float);

int64_t PositionsOf(const TensorSpec& t) {
  int64_t positions = 1;
  for (int d = 2; d < t.rank(); ++d) positions *= t.sizes[d];
  return positions;
}

// A channel's positions lie one after another.
bool IsRowMajor(const TensorSpec& t) {
  int64_t next = 1;
  for (int d = t.rank() - 1; d >= 2; next *= t.sizes[d--]) {
    if (t.sizes[d] > 1 && t.strides[d] != next) return false;
  }
  return true;
}

bool IsOnePixel(const CallSpec& call) {
  const TensorSpec& w = call.op == PREHEAT_LIB_CONV_GRAD_WEIGHT ? call.result : call.operands[1];
  for (int d = 0; d < call.spatial(); ++d) {
    if (w.sizes[d + 2] != 1 || call.padding[d] != 0) return false;
    if (call.stride[d] != 1 && call.op != PREHEAT_LIB_CONV) return false;  // a gradient is 0 in between
  }
  return call.groups == 1;
}

// Where each position reads within a channel; empty where they lie as they are read.
std::vector<int64_t> ReadsOf(const CallSpec& call) {
  if (std::all_of(call.stride.begin(), call.stride.end(), [](int64_t stride) { return stride == 1; })) return {};
  std::vector<int64_t> reads = {0};
  for (int d = 0; d < call.spatial(); ++d) {
    std::vector<int64_t> next;
    for (int64_t base : reads) {
      for (int64_t i = 0; i < call.result.sizes[d + 2]; ++i) {
        next.push_back(base + i * call.stride[d] * call.operands[0].strides[d + 2]);
      }
    }
    reads = std::move(next);
  }
  return reads;
}

class PointwiseCall : public PreparedCall {
 public:
  explicit PointwiseCall(const CallSpec& call)
      : kernel_(HostMicroKernels().pointwise), threads_(std::max(1, MaxThreads())), reads_(ReadsOf(call)) {
    const TensorSpec &x = call.operands[0], &y = call.result;
    positions_ = PositionsOf(y);
    rows_ = y.sizes[1];
    depth_ = x.sizes[1];
    columns_ = y.sizes[0] * positions_;
    nearer_ = call.op == PREHEAT_LIB_CONV && depth_ >= kWorthTotals;
    from_ = {x.strides[0], x.strides[1]};
    to_ = {y.strides[0], y.strides[1]};
    for (const EpilogueSpec& step : call.epilogue) {
      epilogue_.push_back(step.op);
      bias_stride_.push_back(step.op == PREHEAT_LIB_BIAS ? step.operand.strides[0] : 0);
    }
    panels_ = Divided(columns_, kernel_.nr);
    blocks_ = Divided(rows_, kernel_.mr);
    // Blocks are of the same size, or nearly so: a few rows take as long as some more.
    for (int64_t i = 0; i <= blocks_; ++i) starts_.push_back(blocks_ == 0 ? 0 : rows_ * i / blocks_);
    PlanFilters(call);
    panel_floats_ = RoundUp((depth_ + 1) * kernel_.nr, kCacheLine);  // copy_two writes after the end
    thread_floats_ = RoundUp(panel_floats_ + 2 * kernel_.mr * kernel_.nr, kCacheLine);
  }

  absl::string_view provider() const override { return "loops"; }
  int64_t scratch_bytes() const override {
    return (filter_floats_ + threads_ * thread_floats_) * static_cast<int64_t>(sizeof(float));
  }

  absl::Status Run(const preheat_lib_addresses& addresses) const override {
    if (transposed_) TransposeFilters(addresses);
    const int64_t work = kernel_.mr * kernel_.nr * std::max<int64_t>(1, depth_);
    const int threads = std::min(threads_, ThreadsFor(panels_ * blocks_, Divided(kWorthAThread, work)));
    const Job job{this, &addresses};
    ParallelRanges(
        threads, panels_ * blocks_,
        [](const void* context, int64_t begin, int64_t end, int thread) {
          const Job& job = *static_cast<const Job*>(context);
          job.call->RunBlocks(*job.addresses, begin, end, thread);
        },
        &job);
    return absl::OkStatus();
  }

 private:
  struct Job {
    const PointwiseCall* call;
    const preheat_lib_addresses* addresses;
  };
  struct Strides {
    int64_t image = 0, channel = 0;
  };
  struct Span {
    int64_t begin, size;
  };
  struct FilterStrides {
    int64_t row = 0, k = 0;
  };
  struct Blocks {
    int64_t begin, end;
  };
  // Columns of a panel that lie in one image.
  struct Piece {
    int64_t image, position, size;
  };
  struct Panel {
    Span columns;
    Piece first;
  };

  void PlanFilters(const CallSpec& call) {
    const TensorSpec& w = call.operands[1];
    const bool forward = call.op == PREHEAT_LIB_CONV;
    filters_ = {w.strides[forward ? 0 : 1], w.strides[forward ? 1 : 0]};
    transposed_ = filters_.k != 1;
    lda_ = transposed_ ? RoundUp(depth_, kCacheLine) + kCacheLine : filters_.row;  // not a power of two
    filter_floats_ = transposed_ ? RoundUp(rows_ * lda_, kCacheLine) : 0;
  }

  // A gradient needs the filters by input channel. Once for all columns, so that every row of them is read in one go.
  void TransposeFilters(const preheat_lib_addresses& addresses) const {
    const auto* from = static_cast<const float*>(addresses.operands[1]);
    float* to = static_cast<float*>(addresses.scratch);
    const int64_t parts = Divided(depth_, kCacheLine);
    ParallelFor(parts, Divided(kWorthACopy, kCacheLine * std::max<int64_t>(1, rows_)),
                [&](int64_t begin, int64_t end, int) {
                  const int64_t k = begin * kCacheLine, size = std::min(depth_, end * kCacheLine) - k;
                  CopyFilters(from + k * filters_.k, size, to + k);
                });
  }

  // `depth` channels of all filters.
  void CopyFilters(const float* from, int64_t depth, float* to) const {
    if (filters_.row == 1) return kernel_.transpose(depth, rows_, from, filters_.k, to, lda_);
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t k = 0; k < depth; ++k) to[row * lda_ + k] = from[row * filters_.row + k * filters_.k];
    }
  }

  Piece PieceAt(int64_t column, int64_t end) const {
    const int64_t image = column / positions_, position = column % positions_;
    return {image, position, std::min(end - column, positions_ - position)};
  }

  // Blocks of all rows with one panel of columns, then of the next panel.
  void RunBlocks(const preheat_lib_addresses& addresses, int64_t begin, int64_t end, int thread) const {
    float* scratch = static_cast<float*>(addresses.scratch) + filter_floats_ + thread * thread_floats_;
    while (begin < end) {
      const int64_t panel = begin / blocks_, first = begin % blocks_, last = std::min(blocks_, first + end - begin);
      RunPanel(addresses, panel * kernel_.nr, first, last, scratch);
      begin += last - first;
    }
  }

  void RunPanel(const preheat_lib_addresses& addresses, int64_t column, int64_t first, int64_t last,
                float* panel) const {
    const auto* image = static_cast<const float*>(addresses.operands[0]);
    const int64_t columns = std::min<int64_t>(kernel_.nr, columns_ - column);
    const Piece piece = PieceAt(column, column + columns);
    const bool whole = piece.size == kernel_.nr && reads_.empty();
    if (!whole) CopyPanel(image, column, columns, panel);
    PointwiseKernel::Block block{depth_, nullptr, lda_, panel, nullptr, from_.channel, nullptr, to_.channel};
    block.from = image + piece.image * from_.image + piece.position;
    PointwiseKernel::Variant variant = 2 * columns > kernel_.nr ? PointwiseKernel::kWhole : PointwiseKernel::kHalf;
    if (whole) variant = PointwiseKernel::kCopying;
    const int64_t step = variant == PointwiseKernel::kHalf ? 2 : 1;
    for (int64_t i = first; i < last; i += step) {
      RunBlock(addresses, variant, {i, std::min(last, i + step)}, {{column, columns}, piece}, block);
      if (whole) variant = PointwiseKernel::kWhole;
    }
  }

  // Into the result, where the columns lie side by side there and nothing follows. `block` is changed, not copied: a
  // copy of what has just been written would wait until the last block's results are in the cache.
  void RunBlock(const preheat_lib_addresses& addresses, PointwiseKernel::Variant variant, Blocks blocks,
                const Panel& panel, PointwiseKernel::Block& block) const {
    const auto* filters = static_cast<const float*>(transposed_ ? addresses.scratch : addresses.operands[1]);
    const int64_t row = starts_[static_cast<size_t>(blocks.begin)];
    const int64_t rows = starts_[static_cast<size_t>(blocks.end)] - row;
    const PointwiseKernel::Run run = (nearer_ ? kernel_.run_nearer : kernel_.run)[rows - 1][variant];
    block.a = filters + row * lda_;
    if (panel.first.size == kernel_.nr && epilogue_.empty()) {
      block.c = static_cast<float*>(addresses.result) + OffsetOf(panel.first, row);
      return run(block);
    }
    block.c = block.b + panel_floats_;
    block.ldc = kernel_.nr;
    run(block);
    Finish(addresses, {row, rows}, panel.columns, block.c);
  }

  // Where a row's piece lies in the result.
  int64_t OffsetOf(const Piece& piece, int64_t row) const {
    return piece.image * to_.image + row * to_.channel + piece.position;
  }

  // Columns of several images, or apart, or fewer than a panel has.
  void CopyPanel(const float* image, int64_t column, int64_t columns, float* panel) const {
    if (!reads_.empty()) return GatherPanel(image, column, columns, panel);
    const Piece one = PieceAt(column, column + columns), two = PieceAt(column + one.size, column + columns);
    if (columns == kernel_.nr && one.size + two.size == columns && MayReadOn()) {
      kernel_.copy_two(depth_, image + one.image * from_.image + one.position, one.size,
                       image + two.image * from_.image, from_.channel, panel);
      return;
    }
    std::fill(panel, panel + depth_ * kernel_.nr, 0.0F);
    Piece piece;
    for (int64_t at = 0; at < columns; at += piece.size) {
      piece = PieceAt(column + at, column + columns);
      kernel_.copy(depth_, piece.size, image + piece.image * from_.image + piece.position, from_.channel, panel + at,
                   kernel_.nr);
    }
  }

  // Columns that are missing are the last one once more.
  void GatherPanel(const float* image, int64_t column, int64_t columns, float* panel) const {
    int64_t offsets[PointwiseKernel::kMaxColumns];
    for (int64_t j = 0; j < kernel_.nr; ++j) {
      const Piece piece = PieceAt(column + std::min(j, columns - 1), columns_);
      offsets[j] = piece.image * from_.image + reads_[static_cast<size_t>(piece.position)];
    }
    const Piece next = PieceAt(std::min(column + kernel_.nr, columns_ - 1), columns_);
    const int64_t ahead = next.image * from_.image + reads_[static_cast<size_t>(next.position)] - offsets[0];
    kernel_.gather(depth_, image, from_.channel, offsets, ahead, panel);
  }

  // A panel's width after the end of a channel that an image follows is still inside the tensor.
  bool MayReadOn() const { return positions_ >= kernel_.nr && from_.image >= positions_; }

  // Applies the epilogues to a block in scratch and writes it.
  void Finish(const preheat_lib_addresses& addresses, Span rows, Span columns, float* block) const {
    Piece piece;
    for (int64_t at = 0; at < columns.size; at += piece.size) {
      piece = PieceAt(columns.begin + at, columns.begin + columns.size);
      for (size_t e = 0; e < epilogue_.size(); ++e) {
        const auto* operand = static_cast<const float*>(addresses.epilogue[e]);
        for (int64_t i = 0; i < rows.size; ++i) {
          ApplyEpilogue(e, operand, rows.begin + i, piece, block + i * kernel_.nr + at);
        }
      }
      kernel_.copy(rows.size, piece.size, block + at, kernel_.nr,
                   static_cast<float*>(addresses.result) + OffsetOf(piece, rows.begin), to_.channel);
    }
  }

  void ApplyEpilogue(size_t e, const float* operand, int64_t row, const Piece& piece, float* to) const {
    if (epilogue_[e] == PREHEAT_LIB_BIAS) {
      const float bias = operand[row * bias_stride_[e]];
      for (int64_t j = 0; j < piece.size; ++j) to[j] += bias;
    } else if (epilogue_[e] == PREHEAT_LIB_RESIDUAL) {
      operand += OffsetOf(piece, row);
      for (int64_t j = 0; j < piece.size; ++j) to[j] += operand[j];
    } else {
      for (int64_t j = 0; j < piece.size; ++j) to[j] = Activate(epilogue_[e], to[j]);
    }
  }

  const PointwiseKernel& kernel_;
  const int threads_;                 // that scratch is made for
  const std::vector<int64_t> reads_;  // of strided windows
  int64_t positions_ = 0, rows_ = 0, depth_ = 0, columns_ = 0;
  bool nearer_ = false;  // on its last bits depends on which side of 0 the gates behind a convolution are
  Strides from_, to_;    // of the images, of the result
  bool transposed_ = false;
  FilterStrides filters_;  // as they are given
  int64_t lda_ = 0;        // from one row of them to the next as the product reads them
  std::vector<int32_t> epilogue_;
  std::vector<int64_t> bias_stride_;
  std::vector<int64_t> starts_;  // the blocks' first rows, and the end
  int64_t panels_ = 0, blocks_ = 0, filter_floats_ = 0, panel_floats_ = 0, thread_floats_ = 0;
};

}  // namespace

bool IsPointwise(const CallSpec& call) {
  if (call.op != PREHEAT_LIB_CONV && call.op != PREHEAT_LIB_CONV_GRAD_INPUT) return false;
  if (call.result.dtype != static_cast<int32_t>(DType::kF32) || !IsOnePixel(call)) return false;
  // Single positions are better read across the images: the general product does.
  constexpr int64_t kPositions = 4;
  if (PositionsOf(call.result) < kPositions) return false;
  for (const EpilogueSpec& step : call.epilogue) {
    if (step.op == PREHEAT_LIB_RESIDUAL && step.operand.strides != call.result.strides) return false;
  }
  return IsRowMajor(call.operands[0]) && IsRowMajor(call.result);
}

bool IsOnePixelOfRows(const CallSpec& call) {
  if (call.result.dtype != static_cast<int32_t>(DType::kF32) || !IsOnePixel(call)) return false;
  return IsRowMajor(call.operands[0]) && IsRowMajor(call.operands[1]) && IsRowMajor(call.result);
}

std::unique_ptr<PreparedCall> PreparePointwise(const CallSpec& call) { return std::make_unique<PointwiseCall>(call); }

}  // namespace preheat::library
