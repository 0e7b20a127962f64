#include "kernels/library/nine_pixels.h"

#include <algorithm>
#include <vector>

#include "kernels/device/parallel_for.h"
#include "kernels/library/epilogue.h"
#include "kernels/library/micro_kernel.h"

namespace preheat::library {
namespace {

constexpr int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
constexpr int64_t Divided(int64_t n, int64_t by) { return (n + by - 1) / by; }

constexpr int64_t kTaps = 9;
constexpr int64_t kChannels = 8;            // summed before the sum is added to the result
constexpr int64_t kBand = 1 << 16;          // floats of a copied band, about: a part of the second cache
constexpr int64_t kWorthAThread = 1 << 16;  // multiplications
constexpr int64_t kCacheLine = 64 / sizeof(float);

bool IsRowMajorImage(const TensorSpec& t) {
  return (t.sizes[3] <= 1 || t.strides[3] == 1) && (t.sizes[2] <= 1 || t.strides[2] == t.sizes[3]);
}

// How the filters lie: where the first tap is, and from one to the next.
struct Filters {
  int64_t base = 0, group = 0, row = 0, channel = 0, y = 0, x = 0;
};

class NinePixelsCall : public PreparedCall {
 public:
  explicit NinePixelsCall(const CallSpec& call)
      : kernel_(HostMicroKernels().nine_pixels), threads_(std::max(1, MaxThreads())), groups_(call.groups) {
    const TensorSpec &x = call.operands[0], &y = call.result;
    images_ = y.sizes[0];
    depth_ = x.sizes[1] / groups_;
    rows_ = y.sizes[1] / groups_;
    from_ = {x.strides[0], x.strides[1], x.sizes[2], x.sizes[3]};
    to_ = {y.strides[0], y.strides[1], y.sizes[2], y.sizes[3]};
    extent_ = 1;
    for (int d = 0; d < x.rank(); ++d) extent_ += (x.sizes[d] - 1) * x.strides[d];
    const bool forward = call.op == PREHEAT_LIB_CONV;
    for (int d = 0; d < 2; ++d) {
      stride_[d] = call.stride[d];
      padding_[d] = forward ? call.padding[d] : 2 - call.padding[d];
    }
    PlanFilters(call, forward);
    PlanRows();
    PlanBands();
    PlanMasks();
    for (const EpilogueSpec& step : call.epilogue) {
      epilogue_.push_back(step.op);
      bias_stride_.push_back(step.op == PREHEAT_LIB_BIAS ? step.operand.strides[0] : 0);
    }
  }

  absl::string_view provider() const override { return "loops"; }
  int64_t scratch_bytes() const override {
    return (filter_floats_ + threads_ * thread_floats_) * static_cast<int64_t>(sizeof(float));
  }

  absl::Status Run(const preheat_lib_addresses& addresses) const override {
    if (copies_filters_) CopyFilters(addresses);
    const int64_t units = images_ * groups_ * bands_;
    const int64_t work = std::max<int64_t>(1, rows_ * depth_ * kTaps * most_high_ * to_.width);
    const int threads = std::min(threads_, ThreadsFor(units, Divided(kWorthAThread, work)));
    const Job job{this, &addresses};
    ParallelRanges(
        threads, units,
        [](const void* context, int64_t begin, int64_t end, int thread) {
          const Job& job = *static_cast<const Job*>(context);
          for (int64_t unit = begin; unit < end; ++unit) job.call->RunUnit(*job.addresses, unit, thread);
        },
        &job);
    return absl::OkStatus();
  }

 private:
  struct Job {
    const NinePixelsCall* call;
    const preheat_lib_addresses* addresses;
  };
  struct Images {
    int64_t image = 0, channel = 0, height = 0, width = 0;
  };
  struct Span {
    int64_t begin, end;
  };

  void PlanFilters(const CallSpec& call, bool forward) {
    const TensorSpec& w = call.operands[1];
    if (forward) {
      filters_ = {0, rows_ * w.strides[0], w.strides[0], w.strides[1], w.strides[2], w.strides[3]};
    } else {  // the last tap first
      filters_ = {2 * (w.strides[2] + w.strides[3]),
                  depth_ * w.strides[0],
                  w.strides[1],
                  w.strides[0],
                  -w.strides[2],
                  -w.strides[3]};
    }
    copies_filters_ = filters_.channel != kTaps || filters_.y != 3 || filters_.x != 1;
    lda_ = copies_filters_ ? depth_ * kTaps : filters_.row;
    filter_floats_ = copies_filters_ ? RoundUp(groups_ * rows_ * lda_, kCacheLine) : 0;
  }

  // Blocks of rows are of the same size, or nearly so.
  void PlanRows() {
    for (int v = 0; v < NinePixelKernel::kMaxVectors; ++v) {
      const int64_t blocks = Divided(rows_, kernel_.mr[v]);
      for (int64_t i = 0; i <= blocks; ++i) starts_[v].push_back(blocks == 0 ? 0 : rows_ * i / blocks);
    }
  }

  // Lines of the input (with padding) that so many rows of the result read.
  int64_t LinesOf(int64_t high) const { return (high - 1) * stride_[0] + 3; }

  // Bands of rows, of the same size or nearly so, and how the lines of one lie in scratch: for each channel and each
  // column of a window the even ones, then the odd ones where the stride is 2.
  void PlanBands() {
    flat_ = stride_[1] == 1 && padding_[1] == 1 && to_.width == from_.width;
    const int64_t line = std::max<int64_t>(1, 3 * depth_ * to_.width);
    const int64_t least = Divided(NinePixelKernel::kMaxVectors * kernel_.lanes, to_.width);
    const int64_t high = std::max(least, (kBand / line - 2) / stride_[0]);
    bands_ = std::max<int64_t>(1, to_.height / high);
    most_high_ = Divided(to_.height, bands_);
    // What is read and written in whole vectors ends before the next part.
    parity_ = RoundUp(Divided(LinesOf(most_high_), stride_[0]) * to_.width + kernel_.lanes, kernel_.lanes);
    shift_ = parity_ * stride_[0];
    if (shift_ / kCacheLine % 2 == 0) shift_ += kCacheLine;  // not a power of two
    guard_floats_ = RoundUp(LongestRead() + 2 * kCacheLine, kCacheLine);
    thread_floats_ = RoundUp(3 * shift_ * depth_ + kCacheLine, kCacheLine) + guard_floats_;
  }

  int64_t LongestLine() const { return RoundUp(flat_ ? LinesOf(most_high_) * to_.width : to_.width, kernel_.lanes); }
  int64_t LongestRead() const { return LongestLine() * stride_[1] + 2; }

  // Where the first and the last column of a window lie in the image; that between them does.
  void PlanMasks() {
    mask_stride_ = RoundUp(LongestLine(), kCacheLine);
    mask_memory_.assign(static_cast<size_t>(2 * mask_stride_ + kCacheLine), 0);
    const int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(mask_memory_.data()) / 4) % kCacheLine;
    int32_t* masks = mask_memory_.data() + (kCacheLine - past) % kCacheLine;
    masks_ = masks;
    for (const int64_t x : {0, 2}) {
      for (int64_t i = 0; i < LongestLine(); ++i) {
        const int64_t column = i % to_.width * stride_[1] + x - padding_[1];
        if (column >= 0 && column < from_.width) masks[x / 2 * mask_stride_ + i] = -1;
      }
    }
  }

  void CopyFilters(const preheat_lib_addresses& addresses) const {
    const auto* from = static_cast<const float*>(addresses.operands[1]) + filters_.base;
    float* to = static_cast<float*>(addresses.scratch);
    ParallelFor(groups_ * rows_, Divided(kWorthAThread, lda_ + 1), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const float* filter = from + row / rows_ * filters_.group + row % rows_ * filters_.row;
        for (int64_t k = 0; k < depth_; ++k, filter += filters_.channel) {
          for (int64_t tap = 0; tap < kTaps; ++tap) {
            to[row * lda_ + k * kTaps + tap] = filter[tap / 3 * filters_.y + tap % 3 * filters_.x];
          }
        }
      }
    });
  }

  // One band of one group's channels of one image.
  void RunUnit(const preheat_lib_addresses& addresses, int64_t unit, int thread) const {
    const int64_t image = unit / (groups_ * bands_), group = unit / bands_ % groups_, band = unit % bands_;
    float* scratch = static_cast<float*>(addresses.scratch) + filter_floats_ + thread * thread_floats_;
    const Span high{to_.height * band / bands_, to_.height * (band + 1) / bands_};
    // The image's first line begins a cache line.
    const int64_t above = std::max<int64_t>(0, padding_[0] - high.begin * stride_[0]) * to_.width;
    float* lines = scratch + (stride_[0] == 1 ? RoundUp(above, kCacheLine) - above : 0);
    SpreadBand(addresses, image * from_.image + group * depth_ * from_.channel, high, lines,
               scratch + thread_floats_ - guard_floats_);
    const float* filters = static_cast<const float*>(copies_filters_ ? addresses.scratch : addresses.operands[1]);
    filters += group * rows_ * lda_;
    auto* y = static_cast<float*>(addresses.result) + image * to_.image + group * rows_ * to_.channel;
    RunBand(addresses, filters, lines, high, group, y + high.begin * to_.width);
  }

  // The lines of a band, those outside of the image as zeros.
  void SpreadBand(const preheat_lib_addresses& addresses, int64_t offset, Span high, float* to, float* guard) const {
    const int64_t width = to_.width, count = LinesOf(high.end - high.begin);
    for (int64_t parity = 0; parity < stride_[0]; ++parity) {
      const int64_t first = high.begin * stride_[0] - padding_[0] + parity;
      const int64_t all = Divided(count - parity, stride_[0]);
      const int64_t above = std::min(all, Divided(std::max<int64_t>(0, -first), stride_[0]));
      const int64_t until = Divided(std::max<int64_t>(0, from_.height - first), stride_[0]);
      const int64_t inside = std::max<int64_t>(0, std::min(all, until) - above);
      NinePixelKernel::Lines lines{depth_,        inside,         width,
                                   above * width, inside * width, (all - above - inside) * width,
                                   nullptr,       from_.channel,  stride_[0] * from_.width,
                                   masks_,        mask_stride_,   to + parity * parity_,
                                   width,         shift_};
      if (flat_ && stride_[0] == 1 && inside > 0) lines.count = 1, lines.size = lines.inside;
      SpreadLines(addresses, offset + (first + above * stride_[0]) * from_.width - padding_[1], lines, guard);
    }
  }

  void SpreadLines(const preheat_lib_addresses& addresses, int64_t begin, NinePixelKernel::Lines& lines,
                   float* guard) const {
    const auto* x = static_cast<const float*>(addresses.operands[0]);
    const int64_t read = RoundUp(lines.size, kernel_.lanes) * stride_[1] + 2;
    const int64_t end = begin + (depth_ - 1) * lines.ldc + (lines.count - 1) * lines.ldf + read;
    lines.from = x + begin;
    if (begin >= 0 && end <= extent_) return SpreadOf(lines)(lines);
    lines.channels = 1;
    for (int64_t k = 0; k < depth_; ++k, lines.to += 3 * shift_) {
      SpreadGuarded(x, begin + k * lines.ldc, read, lines, guard);
    }
  }

  NinePixelKernel::Spread SpreadOf(const NinePixelKernel::Lines& lines) const {
    return kernel_.spread[stride_[1] - 1][lines.size > kernel_.narrow_lanes ? 1 : 0];
  }

  // One channel line by line, those that would read before the images or behind them from a copy.
  void SpreadGuarded(const float* x, int64_t begin, int64_t read, NinePixelKernel::Lines lines, float* guard) const {
    const NinePixelKernel::Spread spread = SpreadOf(lines);
    const int64_t count = lines.count, below = lines.below;
    for (int64_t line = 0; line < std::max<int64_t>(1, count); ++line, begin += lines.ldf) {
      lines.count = std::min<int64_t>(1, count);
      lines.below = line + 1 >= count ? below : 0;
      lines.from = x + begin;
      if (count > 0 && (begin < 0 || begin + read > extent_)) {
        const int64_t first = std::max<int64_t>(0, begin), end = std::min(extent_, begin + read);
        std::fill(guard, guard + read, 0.0F);
        std::copy(x + first, x + end, guard + (first - begin));
        lines.from = guard;
      }
      spread(lines);
      lines.to += lines.above + lines.ldt;
      lines.inside -= lines.ldt;
      lines.above = 0;
    }
  }

  // The last vectors of a band may overlap those before.
  void RunBand(const preheat_lib_addresses& addresses, const float* filters, const float* band, Span high,
               int64_t group, float* y) const {
    const int64_t positions = (high.end - high.begin) * to_.width, lanes = kernel_.lanes;
    for (int64_t at = 0; at < positions;) {
      int64_t vectors = std::min<int64_t>(NinePixelKernel::kMaxVectors, Divided(positions - at, lanes));
      if (Divided(positions - at, lanes) == 4) vectors = 2;  // twice two, not three and one
      while (vectors * lanes > positions) --vectors;
      at = std::min(at, positions - vectors * lanes);
      RunTile(filters, band + at, vectors, y + at);
      if (!epilogue_.empty()) Finish(addresses, group, vectors * lanes, y + at);
      at += vectors * lanes;
    }
  }

  void RunTile(const float* filters, const float* band, int64_t vectors, float* y) const {
    const std::vector<int64_t>& starts = starts_[vectors - 1];
    NinePixelKernel::Block block{};
    block.lda = lda_;
    block.channel = 3 * shift_;
    block.shift = shift_;
    for (int64_t line = 0; line < 3; ++line) {
      block.line[line] = line % stride_[0] * parity_ + line / stride_[0] * to_.width;
    }
    block.ldc = to_.channel;
    for (int64_t k = 0; k < depth_; k += kChannels) {
      block.channels = std::min(kChannels, depth_ - k);
      block.b = band + k * 3 * shift_;
      block.adds = k > 0;
      for (size_t i = 0; i + 1 < starts.size(); ++i) {
        block.a = filters + starts[i] * lda_ + k * kTaps;
        block.c = y + starts[i] * to_.channel;
        kernel_.run[starts[i + 1] - starts[i] - 1][vectors - 1](block);
      }
    }
  }

  void Finish(const preheat_lib_addresses& addresses, int64_t group, int64_t size, float* y) const {
    for (size_t e = 0; e < epilogue_.size(); ++e) {
      const auto* operand = static_cast<const float*>(addresses.epilogue[e]);
      for (int64_t row = 0; row < rows_; ++row) {
        float* to = y + row * to_.channel;
        if (epilogue_[e] == PREHEAT_LIB_BIAS) {
          const float bias = operand[(group * rows_ + row) * bias_stride_[e]];
          for (int64_t i = 0; i < size; ++i) to[i] += bias;
        } else {
          for (int64_t i = 0; i < size; ++i) to[i] = Activate(epilogue_[e], to[i]);
        }
      }
    }
  }

  const NinePixelKernel& kernel_;
  const int threads_;  // that scratch is made for
  const int64_t groups_;
  int64_t images_ = 0, depth_ = 0, rows_ = 0, extent_ = 0;
  Images from_, to_;
  int64_t stride_[2] = {}, padding_[2] = {};
  Filters filters_;
  bool copies_filters_ = false;
  int64_t lda_ = 0;
  std::vector<int64_t> starts_[NinePixelKernel::kMaxVectors];  // the blocks' first rows, and the end
  bool flat_ = false;  // columns of a window differ by one position, and rows follow each other as in the images
  int64_t bands_ = 0, most_high_ = 0, parity_ = 0, shift_ = 0;
  int64_t mask_stride_ = 0;
  std::vector<int32_t> mask_memory_;
  const int32_t* masks_ = nullptr;  // aligned
  std::vector<int32_t> epilogue_;
  std::vector<int64_t> bias_stride_;
  int64_t filter_floats_ = 0, guard_floats_ = 0, thread_floats_ = 0;
};

}  // namespace

bool IsNinePixels(const CallSpec& call) {
  const bool forward = call.op == PREHEAT_LIB_CONV;
  if (!forward && call.op != PREHEAT_LIB_CONV_GRAD_INPUT) return false;
  if (call.result.dtype != static_cast<int32_t>(DType::kF32) || call.spatial() != 2) return false;
  for (int d = 0; d < 2; ++d) {
    const int64_t most = forward ? NinePixelKernel::kMaxStride : 1;
    const int64_t padding = forward ? call.padding[d] : 2 - call.padding[d];
    if (call.operands[1].sizes[d + 2] != 3 || call.dilation[d] != 1) return false;
    if (call.stride[d] > most || padding < 0 || padding > 1) return false;
    // The middle of every window lies in the image.
    if ((call.result.sizes[d + 2] - 1) * call.stride[d] + 1 - padding >= call.operands[0].sizes[d + 2]) return false;
  }
  for (const EpilogueSpec& step : call.epilogue) {
    if (step.op == PREHEAT_LIB_RESIDUAL) return false;  // the result holds sums in between
  }
  if (call.operands[0].elements() == 0) return false;
  if (call.result.sizes[2] * call.result.sizes[3] < NinePixelKernel::kMaxLanes) return false;
  return IsRowMajorImage(call.operands[0]) && IsRowMajorImage(call.result);
}

std::unique_ptr<PreparedCall> PrepareNinePixels(const CallSpec& call) { return std::make_unique<NinePixelsCall>(call); }

}  // namespace preheat::library
