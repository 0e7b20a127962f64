#include "kernels/library/pointwise_grad.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/device/parallel_for.h"
#include "kernels/library/micro_kernel.h"
#include "kernels/library/pointwise.h"

namespace preheat::library {
namespace {

constexpr int64_t Divided(int64_t n, int64_t by) { return (n + by - 1) / by; }

constexpr int64_t kWorthAThread = 1 << 16;  // multiplications
constexpr int64_t kChunk = 784;             // positions, about: 10 rows of them stay in the first cache
constexpr int64_t kPanel = 1 << 17;         // elements that stay in the second cache
constexpr int64_t kMostTotals = 1 << 21;    // of all groups, so that many threads do not take much memory

int64_t PositionsOf(const TensorSpec& t) { return t.elements() / std::max<int64_t>(1, t.sizes[0] * t.sizes[1]); }

// The channels of an operand, in blocks of nearly the same size.
struct Side {
  Side(const CallSpec& call, int which)
      : operand(which),
        channels(call.operands[which].sizes[1]),
        image(call.operands[which].strides[0]),
        channel(call.operands[which].strides[1]),
        result(call.result.strides[which]) {}

  void Divide(int64_t size) {
    blocks = Divided(channels, size);
    for (int64_t i = 0; i <= blocks; ++i) starts.push_back(channels * i / blocks);
  }
  int64_t Start(int64_t block) const { return starts[static_cast<size_t>(block)]; }
  int64_t Size(int64_t block) const { return Start(block + 1) - Start(block); }
  const float* At(const preheat_lib_addresses& addresses, int64_t block) const {
    return static_cast<const float*>(addresses.operands[operand]) + Start(block) * channel;
  }

  int operand;
  int64_t channels, image, channel;
  int64_t result;  // from one channel to the next in the result
  int64_t blocks = 0;
  std::vector<int64_t> starts;
};

class PointwiseGradCall : public PreparedCall {
 public:
  explicit PointwiseGradCall(const CallSpec& call)
      : kernel_(HostMicroKernels().pointwise_grad), rows_(call, 0), columns_(call, 1) {
    images_ = call.operands[1].sizes[0];
    positions_ = PositionsOf(call.operands[1]);
    const auto tiles = [&](const Side& rows, const Side& columns) {
      return Divided(rows.channels, kernel_.mr) * Divided(columns.channels, kernel_.nr);
    };
    // Columns are read once for each block of rows: the side of fewer channels, which stays in a cache.
    const int64_t as_is = tiles(rows_, columns_), exchanged = tiles(columns_, rows_);
    if (exchanged < as_is || (exchanged == as_is && rows_.channels < columns_.channels)) std::swap(rows_, columns_);
    rows_.Divide(kernel_.mr);
    columns_.Divide(kernel_.nr);
    PlanChunks();
    PlanGroups(std::max(1, MaxThreads()));
  }

  absl::string_view provider() const override { return "loops"; }
  int64_t scratch_bytes() const override { return groups_ * group_totals_ * static_cast<int64_t>(sizeof(double)); }

  absl::Status Run(const preheat_lib_addresses& addresses) const override {
    const int64_t row = kernel_.mr * columns_.channels;
    ParallelFor(groups_ * rows_.blocks, Divided(kWorthAThread, row * Divided(images_ * positions_, groups_)),
                [&](int64_t begin, int64_t end, int) {
                  while (begin < end) {
                    const int64_t group = begin / rows_.blocks, first = begin % rows_.blocks;
                    const int64_t last = std::min(rows_.blocks, first + end - begin);
                    RunGroup(addresses, group, {first, last});
                    begin += last - first;
                  }
                });
    ParallelFor(rows_.blocks, Divided(kWorthAThread, row * groups_), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) FinishRow(addresses, i);
    });
    return absl::OkStatus();
  }

 private:
  struct Blocks {
    int64_t begin, end;
  };
  // Positions of each of some images.
  struct Chunk {
    int64_t image, images, position, positions;
  };

  // Several images, or parts of one.
  void PlanChunks() {
    if (positions_ >= kChunk) {
      for (int64_t image = 0; image < images_; ++image) PlanParts(image);
      return;
    }
    const int64_t chunks = Divided(images_, kChunk / positions_);
    for (int64_t i = 0; i < chunks; ++i) {
      const int64_t image = images_ * i / chunks;
      chunks_.push_back({image, images_ * (i + 1) / chunks - image, 0, positions_});
    }
  }

  // All but the last one whole vectors.
  void PlanParts(int64_t image) {
    const int64_t vectors = positions_ / PointwiseGradKernel::kAtOnce;
    const int64_t parts = (positions_ + kChunk / 2) / kChunk;
    for (int64_t i = 0, position = 0; i < parts; ++i) {
      const int64_t end = i + 1 == parts ? positions_ : vectors * (i + 1) / parts * PointwiseGradKernel::kAtOnce;
      chunks_.push_back({image, 1, position, end - position});
      position = end;
    }
  }

  // Groups of chunks with totals of their own: a thread reads each position once then.
  void PlanGroups(int64_t threads) {
    const int64_t chunks = static_cast<int64_t>(chunks_.size());
    group_totals_ = rows_.blocks * columns_.blocks * PointwiseGradKernel::kTotals;
    const bool even = chunks % threads == 0 || chunks >= 4 * threads;
    if (!even && rows_.blocks >= threads) return;
    groups_ = std::max<int64_t>(1, std::min({threads, chunks, kMostTotals / group_totals_}));
  }

  const float* RowsAt(const preheat_lib_addresses& addresses, const Chunk& chunk, int64_t i) const {
    return rows_.At(addresses, i) + chunk.image * rows_.image + chunk.position;
  }

  double* TotalsOf(const preheat_lib_addresses& addresses, int64_t group, int64_t i, int64_t j) const {
    return static_cast<double*>(addresses.scratch) + group * group_totals_ +
           (i * columns_.blocks + j) * PointwiseGradKernel::kTotals;
  }

  void RunGroup(const preheat_lib_addresses& addresses, int64_t group, Blocks rows) const {
    const int64_t chunks = static_cast<int64_t>(chunks_.size());
    const int64_t begin = chunks * group / groups_, end = chunks * (group + 1) / groups_;
    for (int64_t at = begin; at < end; ++at) {
      const Chunk& chunk = chunks_[static_cast<size_t>(at)];
      const Chunk& next = chunks_[static_cast<size_t>(std::min(at + 1, end - 1))];
      const int64_t width = std::max<int64_t>(1, kPanel / (chunk.images * chunk.positions * kernel_.nr));
      for (int64_t j = 0; j < columns_.blocks; j += width) {
        const Blocks columns{j, std::min(columns_.blocks, j + width)};
        for (int64_t i = rows.begin; i < rows.end; ++i) {
          const float* ahead = i + 1 < rows.end ? RowsAt(addresses, chunk, i + 1) : RowsAt(addresses, next, rows.begin);
          RunRow(addresses, chunk, i, columns, ahead, TotalsOf(addresses, group, i, j), at == begin);
        }
      }
    }
  }

  // Asks for the rows ahead one or two with each block of columns.
  void RunRow(const preheat_lib_addresses& addresses, const Chunk& chunk, int64_t i, Blocks columns, const float* ahead,
              double* totals, bool sets) const {
    const int64_t step = columns.end - columns.begin < kernel_.mr ? 2 : 1;
    PointwiseGradKernel::Block block{};
    block.images = chunk.images, block.positions = chunk.positions;
    block.a = RowsAt(addresses, chunk, i), block.a_image = rows_.image, block.lda = rows_.channel;
    block.b_image = columns_.image, block.ldb = columns_.channel;
    for (int64_t j = columns.begin; j < columns.end; ++j, totals += PointwiseGradKernel::kTotals) {
      block.b = columns_.At(addresses, j) + chunk.image * columns_.image + chunk.position;
      block.ahead = ahead + std::min<int64_t>(kernel_.mr - 1, (j - columns.begin) * step) * rows_.channel;
      block.ahead_too = block.ahead + (step - 1) * rows_.channel;
      block.totals = totals;
      kernel_.sum[rows_.Size(i) - 1][columns_.Size(j) - 1](block, sets);
    }
  }

  void FinishRow(const preheat_lib_addresses& addresses, int64_t i) const {
    float* row = static_cast<float*>(addresses.result) + rows_.Start(i) * rows_.result;
    for (int64_t j = 0; j < columns_.blocks; ++j) {
      kernel_.finish[rows_.Size(i) - 1][columns_.Size(j) - 1](groups_, TotalsOf(addresses, 0, i, j), group_totals_,
                                                              row + columns_.Start(j) * columns_.result, rows_.result,
                                                              columns_.result);
    }
  }

  const PointwiseGradKernel& kernel_;
  Side rows_, columns_;
  int64_t images_ = 0, positions_ = 0, groups_ = 1, group_totals_ = 0;
  std::vector<Chunk> chunks_;
};

}  // namespace

bool IsPointwiseGrad(const CallSpec& call) {
  if (call.op != PREHEAT_LIB_CONV_GRAD_WEIGHT || !call.epilogue.empty() || !IsOnePixelOfRows(call)) return false;
  const TensorSpec& x = call.operands[1];
  if (x.elements() == 0 || call.result.elements() == 0) return false;
  return PositionsOf(x) >= PointwiseGradKernel::kAtOnce;
}

std::unique_ptr<PreparedCall> PreparePointwiseGrad(const CallSpec& call) {
  return std::make_unique<PointwiseGradCall>(call);
}

}  // namespace preheat::library
