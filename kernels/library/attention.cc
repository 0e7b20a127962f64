#include "kernels/library/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/device/parallel_for.h"
#include "kernels/library/micro_kernel.h"

namespace preheat::library {
namespace {

constexpr int64_t kBlockRows = 48;      // of scores at once; a multiple of every mr
constexpr int64_t kBlockColumns = 256;  // a multiple of every nr
constexpr int64_t kTaskRows = 480;      // at most: they share a block of packed keys and values
constexpr int64_t kTasksAThread = 4;
constexpr int64_t kWorthAThread = 1 << 16;  // multiplications
constexpr int64_t kAlignment = 16;          // floats: 64 bytes

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// A stack of matrices in memory.
struct Matrices {
  explicit Matrices(const TensorSpec& t)
      : sizes(t.sizes.begin(), t.sizes.end() - 2),
        strides(t.strides.begin(), t.strides.end() - 2),
        row(t.strides[t.rank() - 2]),
        column(t.strides[t.rank() - 1]) {}

  // Elements before the matrix of that number.
  int64_t Offset(int64_t number) const {
    int64_t offset = 0;
    for (size_t i = sizes.size(); i-- > 0; number /= sizes[i]) offset += number % sizes[i] * strides[i];
    return offset;
  }

  std::vector<int64_t> sizes, strides;
  int64_t row, column;  // strides
};

struct Mask {
  Matrices at;
  bool chooses;     // bool: false hides
  size_t epilogue;  // where its address is
};

// One thread's memory.
struct Scratch {
  float* queries;      // [task rows, e], scaled
  float* sums;         // [task rows, f padded]: weights times values so far
  float* scores;       // [block rows, block columns]
  float* keys;         // panels [e, nr] of a block's columns
  float* values;       // panels [block columns, nr] of the values' columns
  float *max, *total;  // [task rows]: of the scores, and of their exponentials
};

// Rows of scores that belong together: of one matrix, or of a block of it.
struct Rows {
  int64_t matrix, begin, size;
};
struct Columns {
  int64_t begin, size;
};

class AttentionCall : public PreparedCall {
 public:
  explicit AttentionCall(const CallSpec& call)
      : kernel_(HostMicroKernels().attention),
        threads_(std::max(1, MaxThreads())),
        q_(call.operands[0]),
        k_(call.operands[1]),
        v_(call.epilogue.back().operand),
        out_(call.result),
        scale_(static_cast<float>(call.scale)),
        m_(call.operands[0].sizes[call.operands[0].rank() - 2]),
        e_(call.operands[0].sizes.back()),
        n_(call.operands[1].sizes.back()),
        f_(call.result.sizes.back()),
        padded_f_(RoundUp(f_, kernel_.nr)),
        values_(call.epilogue.size() - 1) {
    for (size_t i = 0; i < call.epilogue.size(); ++i) {
      const EpilogueSpec& step = call.epilogue[i];
      if (step.op == PREHEAT_LIB_MASK) {
        masks_.push_back({Matrices(step.operand), step.operand.dtype == static_cast<int32_t>(DType::kBool), i});
      }
      causal_ |= step.op == PREHEAT_LIB_CAUSAL;
      safe_ |= step.op == PREHEAT_LIB_SAFE_SOFTMAX;
    }
    for (int64_t size : out_.sizes) batch_ *= size;
    const int64_t parts = std::max<int64_t>(1, kTasksAThread * threads_ / std::max<int64_t>(1, batch_));
    task_rows_ = std::clamp(RoundUp((m_ + parts - 1) / parts, kBlockRows), kBlockRows, kTaskRows);
    tasks_a_matrix_ = (m_ + task_rows_ - 1) / task_rows_;
    Divide(nullptr, &thread_floats_);
  }

  absl::string_view provider() const override { return "loops"; }
  int64_t scratch_bytes() const override { return threads_ * thread_floats_ * static_cast<int64_t>(sizeof(float)); }
  std::string pack_key(int) const override { return ""; }
  int64_t packed_bytes(int) const override { return 0; }
  absl::Status Pack(int, const void*, void*) const override { return absl::InternalError("nothing is packed"); }

  absl::Status Run(const preheat_lib_addresses& addresses) const override {
    if (f_ == 0) return absl::OkStatus();
    const int64_t tasks = batch_ * tasks_a_matrix_, work = std::max<int64_t>(1, task_rows_ * n_ * (e_ + f_));
    const int threads = std::min(threads_, ThreadsFor(tasks, std::max<int64_t>(1, kWorthAThread / work)));
    const Job job{this, &addresses};
    ParallelRanges(
        threads, tasks,
        [](const void* context, int64_t begin, int64_t end, int thread) {
          const Job& job = *static_cast<const Job*>(context);
          for (int64_t task = begin; task < end; ++task) job.call->RunTask(*job.addresses, task, thread);
        },
        &job);
    return absl::OkStatus();
  }

 private:
  struct Job {
    const AttentionCall* call;
    const preheat_lib_addresses* addresses;
  };

  // Hands out a thread's memory; `used` gets the floats that it needs. `from` may be null to learn that.
  Scratch Divide(float* from, int64_t* used) const {
    *used = 0;
    const auto take = [&](int64_t floats) {
      float* at = from != nullptr ? from + *used : nullptr;
      *used += RoundUp(floats, kAlignment);
      return at;
    };
    Scratch s;
    s.queries = take(task_rows_ * e_);
    s.sums = take(task_rows_ * padded_f_);
    s.scores = take(kBlockRows * kBlockColumns);
    s.keys = take(kBlockColumns * e_);
    s.values = take(kBlockColumns * padded_f_);
    s.max = take(task_rows_);
    s.total = take(task_rows_);
    return s;
  }

  void RunTask(const preheat_lib_addresses& addresses, int64_t task, int thread) const {
    const Rows rows{task / tasks_a_matrix_, task % tasks_a_matrix_ * task_rows_,
                    std::min(task_rows_, m_ - task % tasks_a_matrix_ * task_rows_)};
    int64_t used;
    const Scratch s = Divide(static_cast<float*>(addresses.scratch) + thread * thread_floats_, &used);
    ReadQueries(addresses, rows, s);
    const int64_t end = causal_ ? std::min(n_, rows.begin + rows.size) : n_;
    for (int64_t begin = 0; begin < end; begin += kBlockColumns) {
      const Columns columns{begin, std::min(kBlockColumns, end - begin)};
      PackKeys(addresses, rows.matrix, columns, s.keys);
      PackValues(addresses, rows.matrix, columns, s.values);
      for (int64_t i = 0; i < rows.size; i += kBlockRows) {
        AddBlock(addresses, {rows.matrix, rows.begin + i, std::min(kBlockRows, rows.size - i)}, columns, At(s, i));
      }
    }
    WriteResult(addresses, rows, s);
  }

  // The same memory from row i of the task on.
  Scratch At(Scratch s, int64_t i) const {
    s.queries += i * e_;
    s.sums += i * padded_f_;
    s.max += i;
    s.total += i;
    return s;
  }

  void ReadQueries(const preheat_lib_addresses& addresses, Rows rows, const Scratch& s) const {
    const float* from = static_cast<const float*>(addresses.operands[0]) + q_.Offset(rows.matrix);
    for (int64_t i = 0; i < rows.size; ++i) {
      const float* row = from + (rows.begin + i) * q_.row;
      for (int64_t c = 0; c < e_; ++c) s.queries[i * e_ + c] = row[c * q_.column] * scale_;
    }
    const int64_t padded = RoundUp(rows.size, kernel_.mr);
    std::fill(s.queries + rows.size * e_, s.queries + padded * e_, 0.0F);
    std::fill(s.sums, s.sums + padded * padded_f_, 0.0F);
    std::fill(s.max, s.max + rows.size, -std::numeric_limits<float>::infinity());
    std::fill(s.total, s.total + rows.size, 0.0F);
  }

  void PackKeys(const preheat_lib_addresses& addresses, int64_t matrix, Columns columns, float* to) const {
    const int64_t nr = kernel_.nr;
    const float* from =
        static_cast<const float*>(addresses.operands[1]) + k_.Offset(matrix) + columns.begin * k_.column;
    for (int64_t j = 0; j < columns.size; j += nr, from += nr * k_.column, to += nr * e_) {
      const int64_t here = std::min(nr, columns.size - j);
      if (here < nr) std::fill(to, to + nr * e_, 0.0F);
      for (int64_t c = 0; c < here; ++c) {
        for (int64_t k = 0; k < e_; ++k) to[k * nr + c] = from[c * k_.column + k * k_.row];
      }
    }
  }

  void PackValues(const preheat_lib_addresses& addresses, int64_t matrix, Columns rows, float* to) const {
    const int64_t nr = kernel_.nr;
    const void* address = addresses.epilogue[values_];
    const float* from = static_cast<const float*>(address) + v_.Offset(matrix) + rows.begin * v_.row;
    for (int64_t j = 0; j < f_; j += nr) {
      const int64_t here = std::min(nr, f_ - j);
      for (int64_t i = 0; i < rows.size; ++i, to += nr) {
        const float* row = from + i * v_.row + j * v_.column;
        for (int64_t c = 0; c < here; ++c) to[c] = row[c * v_.column];
        std::fill(to + here, to + nr, 0.0F);
      }
    }
  }

  // Scores of a block, their weights, and what these add to the rows' sums.
  void AddBlock(const preheat_lib_addresses& addresses, Rows rows, Columns columns, const Scratch& s) const {
    const int64_t mr = kernel_.mr, nr = kernel_.nr, all = columns.size;
    if (causal_) columns.size = std::min(columns.size, rows.begin + rows.size - columns.begin);
    if (columns.size <= 0) return;
    for (int64_t i = 0; i < rows.size; i += mr) {
      float* scores = s.scores + i * kBlockColumns;
      for (int64_t j = 0; j < columns.size; j += nr) {
        kernel_.product(e_, s.queries + i * e_, e_, s.keys + j * e_, scores + j, kBlockColumns);
      }
    }
    for (int64_t i = 0; i < rows.size; ++i) WeighRow(addresses, rows, i, columns, s);
    for (int64_t i = 0; i < rows.size; i += mr) {
      for (int64_t j = 0; j < f_; j += nr) {
        kernel_.add_product(columns.size, s.scores + i * kBlockColumns, kBlockColumns, s.values + j * all,
                            s.sums + i * padded_f_ + j, padded_f_);
      }
    }
  }

  // Row i of the block: scores to weights, as far as the row sees them, and what came before to the new maximum.
  void WeighRow(const preheat_lib_addresses& addresses, Rows rows, int64_t i, Columns columns, const Scratch& s) const {
    float* scores = s.scores + i * kBlockColumns;
    const int64_t row = rows.begin + i;
    const int64_t seen = causal_ ? std::clamp<int64_t>(row + 1 - columns.begin, 0, columns.size) : columns.size;
    if (seen > 0) {
      for (const Mask& mask : masks_) {
        Hide(mask, addresses.epilogue[mask.epilogue], rows.matrix, row, {columns.begin, seen}, scores);
      }
      const float before = s.max[i];
      const float total = kernel_.weigh(seen, scores, &s.max[i]);
      const float factor = s.max[i] == before ? 1 : std::exp(before - s.max[i]);
      s.total[i] = s.total[i] * factor + total;
      if (factor != 1) kernel_.scale(f_, factor, s.sums + i * padded_f_);
    }
    std::fill(scores + seen, scores + columns.size, 0.0F);
  }

  static void Hide(const Mask& mask, const void* address, int64_t matrix, int64_t row, Columns columns, float* scores) {
    const int64_t offset = mask.at.Offset(matrix) + row * mask.at.row + columns.begin * mask.at.column;
    const int64_t step = mask.at.column;
    if (mask.chooses) {
      const uint8_t* from = static_cast<const uint8_t*>(address) + offset;
      for (int64_t j = 0; j < columns.size; ++j) {
        scores[j] = from[j * step] != 0 ? scores[j] : -std::numeric_limits<float>::infinity();
      }
      return;
    }
    const float* from = static_cast<const float*>(address) + offset;
    if (step == 1) {
      for (int64_t j = 0; j < columns.size; ++j) scores[j] += from[j];
    } else {
      for (int64_t j = 0; j < columns.size; ++j) scores[j] += from[j * step];
    }
  }

  void WriteResult(const preheat_lib_addresses& addresses, Rows rows, const Scratch& s) const {
    float* to = static_cast<float*>(addresses.result) + out_.Offset(rows.matrix);
    for (int64_t i = 0; i < rows.size; ++i) {
      const bool nothing = s.total[i] == 0 && (safe_ || n_ == 0);
      const float factor = nothing ? 0 : 1 / s.total[i];
      float* row = to + (rows.begin + i) * out_.row;
      for (int64_t c = 0; c < f_; ++c) row[c * out_.column] = s.sums[i * padded_f_ + c] * factor;
    }
  }

  const AttentionKernel kernel_;
  const int threads_;  // that scratch is made for
  const Matrices q_, k_, v_, out_;
  const float scale_;
  const int64_t m_, e_, n_, f_, padded_f_;
  std::vector<Mask> masks_;
  size_t values_;  // the epilogue that gives v
  bool causal_ = false, safe_ = false;
  int64_t batch_ = 1, task_rows_ = 0, tasks_a_matrix_ = 0, thread_floats_ = 0;
};

}  // namespace

std::unique_ptr<PreparedCall> PrepareAttention(const CallSpec& call) { return std::make_unique<AttentionCall>(call); }

}  // namespace preheat::library
