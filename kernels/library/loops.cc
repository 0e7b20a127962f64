#include "kernels/library/loops.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/parallel_for.h"
#include "kernels/library/attention.h"
#include "kernels/library/attention_grad.h"
#include "kernels/library/epilogue.h"
#include "kernels/library/gemm.h"
#include "kernels/library/half.h"
#include "kernels/library/micro_kernel.h"
#include "kernels/library/nine_pixels.h"
#include "kernels/library/pointwise.h"
#include "kernels/library/pointwise_grad.h"

namespace preheat::library {

const MicroKernels& HostMicroKernels() {
  static const MicroKernels& best = HostHas("x86-64-v4")   ? kMicroKernelsV4
                                    : HostHas("x86-64-v3") ? kMicroKernelsV3
                                                           : kMicroKernelsV2;
  return best;
}

namespace {

template <typename T>
const RowKernels<T>* RowKernelsOf() {
  if constexpr (std::is_same_v<T, float>) return &HostMicroKernels().rows_f32;
  if constexpr (std::is_same_v<T, double>) return &HostMicroKernels().rows_f64;
  return nullptr;
}

template <typename T>
const MicroKernel<T>& KernelOf() {
  if constexpr (std::is_same_v<T, float>) return HostMicroKernels().f32;
  if constexpr (std::is_same_v<T, double>) return HostMicroKernels().f64;
  if constexpr (std::is_same_v<T, uint32_t>) return HostMicroKernels().u32;
  if constexpr (std::is_same_v<T, uint64_t>) return HostMicroKernels().u64;
}

// An element in memory as the type that sums, and back.
template <typename Sum, typename Stored>
Sum Load(Stored x) {
  if constexpr (std::is_same_v<Stored, F16> || std::is_same_v<Stored, BF16>) {
    return ToFloat(x);
  } else {
    return static_cast<Sum>(x);
  }
}
template <typename Stored, typename Sum>
Stored Store(Sum x) {
  if constexpr (std::is_same_v<Stored, F16>) {
    return ToF16(x);
  } else if constexpr (std::is_same_v<Stored, BF16>) {
    return ToBF16(x);
  } else {
    return static_cast<Stored>(x);
  }
}

constexpr int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

constexpr int64_t kDepth = 256;    // k values packed at once
constexpr int64_t kTileRows = 96;  // at most; a multiple of every mr after rounding
constexpr int64_t kTileColumns = 256;
constexpr int64_t kMaxWidth = 64;           // of a panel
constexpr int64_t kWorthAThread = 1 << 16;  // multiplications

// Products that read the left operand as it lies (RowKernel).
constexpr int64_t kRowColumns = 64;  // as few columns use each element too seldom to copy it
constexpr int64_t kRowTile = 512;    // rows of a tile at most
constexpr int64_t kRowPanels = int64_t{1}
                               << 15;  // elements of the right operand packed at once: half a second-level cache

// One column: each element of the left operand is read for one multiplication, which takes longer than that.
constexpr int64_t kReadsWorthAThread = kWorthAThread / 4;

constexpr int64_t kNothing = -1;

// Where a windowed operand reads for (row, k), without the channel's k_offset; kNothing where it reads nothing.
int64_t WindowOffset(const OperandRule& rule, int64_t row, int64_t k) {
  int64_t offset = rule.row_offset[row];
  for (int d = 0; d < rule.windows; ++d) {
    int64_t position = rule.row_position[d][row] + rule.k_position[d][k];
    if (position < 0) return kNothing;
    if (rule.step[d] != 1) {
      if (position % rule.step[d] != 0) return kNothing;
      position /= rule.step[d];
    }
    if (position >= rule.size[d]) return kNothing;
    offset += position * rule.stride[d];
  }
  return offset;
}

struct Span {
  int64_t begin, size;
};

// One panel of a windowed operand, tap by tap: where a tap reads is the same for all channels.
template <typename Sum, typename Stored>
void PackWindows(const OperandRule& rule, const Stored* base, Span rows, Span ks, int64_t width, Sum* out) {
  const int64_t taps = rule.taps > 0 ? rule.taps : ks.size;
  int64_t offsets[kMaxWidth];
  for (int64_t first = 0; first < std::min(taps, ks.size); ++first) {
    for (int64_t r = 0; r < rows.size; ++r) offsets[r] = WindowOffset(rule, rows.begin + r, ks.begin + first);
    for (int64_t i = first; i < ks.size; i += taps) {
      const Stored* channel = base + rule.k_offset[ks.begin + i];
      Sum* to = out + i * width;
      for (int64_t r = 0; r < rows.size; ++r) to[r] = offsets[r] == kNothing ? Sum(0) : Load<Sum>(channel[offsets[r]]);
      std::fill(to + rows.size, to + width, Sum(0));
    }
  }
}

// Copies rows x ks of an operand into panels of `width` rows, k after k, the last panel filled up with zeros.
template <typename Sum, typename Stored>
void Pack(const OperandRule& rule, const Stored* base, Span rows, Span ks, int64_t width, Sum* out) {
  for (int64_t panel = 0; panel < rows.size; panel += width) {
    const int64_t here = std::min(width, rows.size - panel), first = rows.begin + panel;
    if (rule.windows > 0) {
      PackWindows(rule, base, {first, here}, ks, width, out);
      out += ks.size * width;
      continue;
    }
    for (int64_t k = ks.begin; k < ks.begin + ks.size; ++k, out += width) {
      const Stored* column = base + rule.k_offset[k];
      for (int64_t r = 0; r < here; ++r) out[r] = Load<Sum>(column[rule.row_offset[first + r]]);
      std::fill(out + here, out + width, Sum(0));
    }
  }
}

template <typename Stored, typename Sum>
class GemmCall : public PreparedCall {
 public:
  explicit GemmCall(const CallSpec& call)
      : plan_(PlanGemm(call)), kernel_(KernelOf<Sum>()), threads_(std::max(1, MaxThreads())) {
    for (const EpilogueSpec& step : call.epilogue) {
      epilogue_.push_back(step.op);
      bias_stride_.push_back(step.op == PREHEAT_LIB_BIAS ? step.operand.strides[0] : 0);
    }
    if (std::is_same_v<Sum, Stored> && RowKernelsOf<Sum>() != nullptr && ReadsRows()) {
      if constexpr (std::is_same_v<Sum, float>) dot_ = plan_.n == 1 ? HostMicroKernels().attention.dot : nullptr;
      ChooseRowTiles();
    } else {
      ChooseTiles();
    }
  }

  absl::string_view provider() const override { return "loops"; }
  int64_t scratch_bytes() const override { return threads_ * thread_bytes_; }

  absl::Status Run(const preheat_lib_addresses& addresses) const override {
    const int64_t tiles = plan_.batch * m_tiles_ * n_tiles_;
    const int64_t tile_work = std::max<int64_t>(1, tile_m_ * tile_n_ * std::max<int64_t>(1, plan_.k));
    const int64_t worth = dot_ != nullptr ? kReadsWorthAThread : kWorthAThread;
    const int threads = std::min(threads_, ThreadsFor(tiles, std::max<int64_t>(1, worth / tile_work)));
    const Job job{this, &addresses};
    ParallelRanges(
        threads, tiles,
        [](const void* context, int64_t begin, int64_t end, int thread) {
          const Job& job = *static_cast<const Job*>(context);
          for (int64_t tile = begin; tile < end; ++tile) job.call->RunTile(*job.addresses, tile, thread);
        },
        &job);
    return absl::OkStatus();
  }

 private:
  struct Job {
    const GemmCall* call;
    const preheat_lib_addresses* addresses;
  };

  // Few columns, and rows of the left operand with elements side by side at equal distances.
  bool ReadsRows() const {
    const OperandRule& left = plan_.left;
    if (plan_.n > kRowColumns || plan_.m == 0 || plan_.k == 0 || left.windows > 0) return false;
    for (int64_t k = 0; k < plan_.k; ++k) {
      if (left.k_offset[k] != k) return false;
    }
    for (int64_t i = 0; i < plan_.m; ++i) {
      if (left.row_offset[i] != i * (plan_.m > 1 ? left.row_offset[1] : 0)) return false;
    }
    return true;
  }

  void ChooseRowTiles() {
    const RowKernels<Sum>& kernels = *RowKernelsOf<Sum>();
    rows_ = plan_.n <= kernels.narrow.nr ? &kernels.narrow : &kernels.wide;
    tile_n_ = dot_ != nullptr ? 1 : RoundUp(std::max<int64_t>(1, plan_.n), rows_->nr);
    const int64_t share = Tiles(plan_.m, std::max<int64_t>(1, threads_ / std::max<int64_t>(1, plan_.batch)));
    tile_m_ = std::min(RoundUp(share, rows_->mr), kRowTile);
    m_tiles_ = Tiles(plan_.m, tile_m_);
    n_tiles_ = 1;
    depth_ = std::min(std::max<int64_t>(kDepth, kRowPanels / tile_n_), plan_.k);
    right_bytes_ = Bytes(tile_n_ * depth_);
    thread_bytes_ = right_bytes_ + Bytes(tile_m_ * tile_n_);
  }

  // Tiles no larger than the product, and at least one a thread where that is possible.
  void ChooseTiles() {
    const int64_t mr = kernel_.mr, nr = kernel_.nr;
    tile_m_ = std::min(RoundUp(kTileRows, mr), RoundUp(std::max<int64_t>(1, plan_.m), mr));
    tile_n_ = std::min(RoundUp(kTileColumns, nr), RoundUp(std::max<int64_t>(1, plan_.n), nr));
    const auto count = [&] { return plan_.batch * Tiles(plan_.m, tile_m_) * Tiles(plan_.n, tile_n_); };
    while (count() < threads_ && tile_n_ > nr) tile_n_ = RoundUp(tile_n_ / 2, nr);
    while (count() < threads_ && tile_m_ > mr) tile_m_ = RoundUp(tile_m_ / 2, mr);
    m_tiles_ = Tiles(plan_.m, tile_m_);
    n_tiles_ = Tiles(plan_.n, tile_n_);
    depth_ = std::max<int64_t>(1, std::min(kDepth, plan_.k));
    left_bytes_ = Bytes(tile_m_ * depth_);
    right_bytes_ = Bytes(tile_n_ * depth_);
    thread_bytes_ = left_bytes_ + right_bytes_ + Bytes(tile_m_ * tile_n_);
  }
  static int64_t Tiles(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }
  static int64_t Bytes(int64_t elements) { return RoundUp(elements * static_cast<int64_t>(sizeof(Sum)), 64); }

  void RunTile(const preheat_lib_addresses& addresses, int64_t tile, int thread) const {
    const int64_t batch = tile / (m_tiles_ * n_tiles_), rest = tile % (m_tiles_ * n_tiles_);
    Span ms{rest / n_tiles_ * tile_m_, 0}, ns{rest % n_tiles_ * tile_n_, 0};
    ms.size = std::min(tile_m_, plan_.m - ms.begin);
    ns.size = std::min(tile_n_, plan_.n - ns.begin);
    char* scratch = static_cast<char*>(addresses.scratch) + thread * thread_bytes_;
    Sum* left = reinterpret_cast<Sum*>(scratch);
    Sum* right = reinterpret_cast<Sum*>(scratch + left_bytes_);
    Sum* sums = reinterpret_cast<Sum*>(scratch + left_bytes_ + right_bytes_);
    std::memset(static_cast<void*>(sums), 0, static_cast<size_t>(tile_m_ * tile_n_) * sizeof(Sum));
    const Stored* left_base =
        static_cast<const Stored*>(addresses.operands[plan_.left_operand]) + plan_.left.batch_offset[batch];
    const Stored* right_base =
        static_cast<const Stored*>(addresses.operands[1 - plan_.left_operand]) + plan_.right.batch_offset[batch];
    for (int64_t k = 0; k < plan_.k; k += depth_) {
      const Span ks{k, std::min(depth_, plan_.k - k)};
      if constexpr (std::is_same_v<Sum, Stored>) {
        if (rows_ != nullptr) {
          library::Pack(plan_.right, right_base, ns, ks, dot_ != nullptr ? 1 : rows_->nr, right);
          if constexpr (std::is_same_v<Sum, float>) {
            if (dot_ != nullptr) {
              AddDots(ms, ks, left_base, right, sums);
              continue;
            }
          }
          MultiplyRows(ms, ns.size, ks, left_base, right, sums);
          continue;
        }
      }
      library::Pack(plan_.left, left_base, ms, ks, kernel_.mr, left);
      library::Pack(plan_.right, right_base, ns, ks, kernel_.nr, right);
      Multiply(ms.size, ns.size, ks.size, left, right, sums);
    }
    Finish(addresses, batch, ms, ns, sums);
  }

  void Multiply(int64_t m, int64_t n, int64_t depth, const Sum* left, const Sum* right, Sum* sums) const {
    for (int64_t j = 0; j < n; j += kernel_.nr) {
      for (int64_t i = 0; i < m; i += kernel_.mr) {
        kernel_.run(depth, left + i * depth, right + j * depth, sums + i * tile_n_ + j, tile_n_);
      }
    }
  }

  void MultiplyRows(Span ms, int64_t n, Span ks, const Sum* left, const Sum* right, Sum* sums) const {
    const int64_t lda = plan_.m > 1 ? plan_.left.row_offset[1] : 0;
    for (int64_t i = 0; i < ms.size;) {
      const bool block = ms.size - i >= rows_->mr;
      const Sum* a = left + (ms.begin + i) * lda + ks.begin;
      for (int64_t j = 0; j < n; j += rows_->nr) {
        (block ? rows_->run : rows_->run_one)(ks.size, a, lda, right + j * ks.size, sums + i * tile_n_ + j, tile_n_);
      }
      i += block ? rows_->mr : 1;
    }
  }

  // Of one column: rows are multiplied along k, not filled up to the width of a vector.
  void AddDots(Span ms, Span ks, const float* left, const float* right, float* sums) const {
    const int64_t lda = plan_.m > 1 ? plan_.left.row_offset[1] : 0;
    for (int64_t i = 0; i < ms.size; ++i) sums[i] += dot_(ks.size, left + (ms.begin + i) * lda + ks.begin, right);
  }

  // Applies the epilogues in order and writes the tile.
  void Finish(const preheat_lib_addresses& addresses, int64_t batch, Span ms, Span ns, Sum* sums) const {
    for (size_t e = 0; e < epilogue_.size(); ++e) {
      for (int64_t i = 0; i < ms.size; ++i) {
        ApplyEpilogue(e, static_cast<const Stored*>(addresses.epilogue[e]), batch, ms.begin + i, ns,
                      sums + i * tile_n_);
      }
    }
    Stored* result = static_cast<Stored*>(addresses.result) + plan_.result.batch_offset[batch];
    for (int64_t i = 0; i < ms.size; ++i) {
      Stored* row = result + plan_.result.m_offset[ms.begin + i];
      const int64_t* columns = plan_.result.n_offset.data() + ns.begin;
      for (int64_t j = 0; j < ns.size; ++j) row[columns[j]] = Store<Stored>(sums[i * tile_n_ + j]);
    }
  }

  void ApplyEpilogue(size_t e, const Stored* operand, int64_t batch, int64_t m, Span ns, Sum* row) const {
    if (epilogue_[e] == PREHEAT_LIB_BIAS && plan_.bias_follows_m) {
      const Sum bias = Load<Sum>(operand[(plan_.bias_base[batch] + m) * bias_stride_[e]]);
      for (int64_t j = 0; j < ns.size; ++j) row[j] += bias;
    } else if (epilogue_[e] == PREHEAT_LIB_BIAS) {
      for (int64_t j = 0; j < ns.size; ++j) row[j] += Load<Sum>(operand[(ns.begin + j) * bias_stride_[e]]);
    } else if (epilogue_[e] == PREHEAT_LIB_RESIDUAL) {
      const ResultRule& rule = plan_.residuals[e];
      const Stored* from = operand + rule.batch_offset[batch] + rule.m_offset[m];
      for (int64_t j = 0; j < ns.size; ++j) row[j] += Load<Sum>(from[rule.n_offset[ns.begin + j]]);
    } else {
      // Through the stored type: an integer's sign is that of the wrapped value. Floats keep what they have.
      for (int64_t j = 0; j < ns.size; ++j) {
        row[j] = Activate(epilogue_[e], std::is_integral_v<Sum> ? Load<Sum>(Store<Stored>(row[j])) : row[j]);
      }
    }
  }

  const GemmPlan plan_;
  const MicroKernel<Sum> kernel_;
  const RowKernel<Sum>* rows_ = nullptr;                               // set: the left operand is read as it lies
  float (*dot_)(int64_t n, const float* a, const float* b) = nullptr;  // set: there is one column
  const int threads_;                                                  // that scratch is made for
  std::vector<int32_t> epilogue_;
  std::vector<int64_t> bias_stride_;
  int64_t tile_m_ = 0, tile_n_ = 0, m_tiles_ = 0, n_tiles_ = 0, depth_ = 0;
  int64_t left_bytes_ = 0, right_bytes_ = 0, thread_bytes_ = 0;
};

template <typename Stored, typename Sum>
std::unique_ptr<PreparedCall> Make(const CallSpec& call) {
  return std::make_unique<GemmCall<Stored, Sum>>(call);
}

// What a CPU has loops for: f32, as many heads of keys as of queries.
bool TakesAttention(const CallSpec& call) {
  const TensorSpec &q = call.operands[0], &k = call.operands[1];
  return call.result.dtype == static_cast<int32_t>(DType::kF32) &&
         std::equal(q.sizes.begin(), q.sizes.end() - 2, k.sizes.begin());
}

class Loops : public Provider {
 public:
  absl::string_view name() const override { return "loops"; }

  absl::StatusOr<std::unique_ptr<PreparedCall>> Prepare(const CallSpec& call) const override {
    if (call.op >= PREHEAT_LIB_ATTENTION && !TakesAttention(call)) {
      return absl::UnimplementedError("attention here is for f32 and equal heads");
    }
    if (call.op == PREHEAT_LIB_ATTENTION) return PrepareAttention(call);
    if (call.op == PREHEAT_LIB_ATTENTION_GRAD) return PrepareAttentionGrad(call);
    if (IsPointwise(call)) return PreparePointwise(call);
    if (IsPointwiseGrad(call)) return PreparePointwiseGrad(call);
    if (IsNinePixels(call)) return PrepareNinePixels(call);
    switch (static_cast<DType>(call.result.dtype)) {
      case DType::kU8: return Make<uint8_t, uint32_t>(call);
      case DType::kI8: return Make<int8_t, uint32_t>(call);
      case DType::kI16: return Make<int16_t, uint32_t>(call);
      case DType::kI32: return Make<int32_t, uint32_t>(call);
      case DType::kI64: return Make<int64_t, uint64_t>(call);
      case DType::kF16: return Make<F16, float>(call);
      case DType::kBF16: return Make<BF16, float>(call);
      case DType::kF32: return Make<float, float>(call);
      case DType::kF64: return Make<double, double>(call);
      case DType::kBool: break;
    }
    return absl::UnimplementedError(absl::StrCat("loops: dtype ", call.result.dtype));
  }
};

}  // namespace

const Provider& LoopsProvider() {
  static const Loops& provider = *new Loops;
  return provider;
}

}  // namespace preheat::library
