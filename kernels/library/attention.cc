#include "kernels/library/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/library/attention_parts.h"
#include "kernels/library/micro_kernel.h"
#include "kernels/library/task_call.h"

namespace preheat::library {
namespace {

constexpr int64_t kBlockRows = 48;      // of scores at once; a multiple of every mr
constexpr int64_t kBlockColumns = 256;  // a multiple of every nr
constexpr int64_t kTaskRows = 480;      // at most, a multiple of every mr: they share a block of packed keys and values
constexpr int64_t kTasksAThread = 4;

// One thread's memory.
struct Scratch {
  float* queries;      // [task rows, e], scaled
  float* sums;         // [task rows, f padded]: weights times values so far
  float* scores;       // [block rows, block columns]
  float* keys;         // panels [e, nr] of a block's columns
  float* values;       // panels [block columns, nr] of the values' columns
  float *max, *total;  // [task rows]: of the scores, and of their exponentials
};

// Rows of one matrix of scores.
struct Rows {
  int64_t matrix, begin, size;
};

class AttentionCall : public TaskCall {
 public:
  explicit AttentionCall(const CallSpec& call)
      : kernel_(HostMicroKernels().attention),
        q_(call.operands[0]),
        k_(Matrices(call.operands[1]).Transposed()),
        v_(call.epilogue.back().operand),
        out_(call.result),
        masks_(call),
        scale_(static_cast<float>(call.scale)),
        m_(call.operands[0].sizes[call.operands[0].rank() - 2]),
        e_(call.operands[0].sizes.back()),
        n_(call.operands[1].sizes.back()),
        f_(call.result.sizes.back()),
        padded_f_(RoundUp(f_, kernel_.nr)),
        values_(call.epilogue.size() - 1) {
    for (const EpilogueSpec& step : call.epilogue) safe_ |= step.op == PREHEAT_LIB_SAFE_SOFTMAX;
    if (!call.more_results.empty()) log_sums_ = Matrices(call.more_results[0]);
    int64_t batch = 1;
    for (int64_t size : out_.sizes) batch *= size;
    // Matrices that can be shared out evenly stay whole: a part packs its keys anew.
    const int64_t parts =
        batch % threads() == 0 ? 1 : std::max<int64_t>(1, kTasksAThread * threads() / std::max<int64_t>(1, batch));
    task_rows_ = std::clamp<int64_t>(RoundUp((m_ + parts - 1) / parts, kernel_.mr), kernel_.mr, kTaskRows);
    tasks_a_matrix_ = (m_ + task_rows_ - 1) / task_rows_;
    FloatParts memory(nullptr);
    Divide(memory);
    SetTasks(batch * tasks_a_matrix_, task_rows_ * n_ * (e_ + f_), memory.used());
  }

 private:
  Scratch Divide(FloatParts& parts) const {
    Scratch s;
    s.queries = parts.Take(task_rows_ * e_);
    s.sums = parts.Take(task_rows_ * padded_f_);
    s.scores = parts.Take(kBlockRows * kBlockColumns);
    s.keys = parts.Take(kBlockColumns * e_);
    s.values = parts.Take(kBlockColumns * padded_f_);
    s.max = parts.Take(task_rows_);
    s.total = parts.Take(task_rows_);
    return s;
  }

  void RunTask(const preheat_lib_addresses& addresses, int64_t task, float* memory) const override {
    const Rows rows{task / tasks_a_matrix_, task % tasks_a_matrix_ * task_rows_,
                    std::min(task_rows_, m_ - task % tasks_a_matrix_ * task_rows_)};
    FloatParts parts(memory);
    const Scratch s = Divide(parts);
    ReadQueries(addresses, rows, s);
    const float* keys = static_cast<const float*>(addresses.operands[1]) + k_.Offset(rows.matrix);
    const float* values = static_cast<const float*>(addresses.epilogue[values_]) + v_.Offset(rows.matrix);
    const int64_t end = masks_.SeenBefore(rows.begin + rows.size, {0, n_});
    for (int64_t begin = 0; begin < end; begin += kBlockColumns) {
      const Span columns{begin, std::min(kBlockColumns, end - begin)};
      PackTransposedPanels(kernel_, keys, k_, columns, e_, s.keys);
      PackPanels(kernel_, values, v_, columns, f_, s.values);
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
    CopyRows(kernel_, from, q_, {rows.begin, rows.size}, e_, scale_, s.queries);
    const int64_t padded = RoundUp(rows.size, kernel_.mr);
    std::fill(s.queries + rows.size * e_, s.queries + padded * e_, 0.0F);
    std::fill(s.sums, s.sums + padded * padded_f_, 0.0F);
    std::fill(s.max, s.max + rows.size, -std::numeric_limits<float>::infinity());
    std::fill(s.total, s.total + rows.size, 0.0F);
  }

  // Scores of a block, their weights, and what these add to the rows' sums.
  void AddBlock(const preheat_lib_addresses& addresses, Rows rows, Span columns, const Scratch& s) const {
    const int64_t mr = kernel_.mr, nr = kernel_.nr, all = columns.size;
    columns.size = masks_.SeenBefore(rows.begin + rows.size, columns);
    if (columns.size == 0) return;
    for (int64_t i = 0; i < rows.size; i += mr) {
      float* scores = s.scores + i * kBlockColumns;
      for (int64_t j = 0; j < columns.size; j += nr) {
        kernel_.product(rows.size - i, columns.size - j, e_, s.queries + i * e_, e_, s.keys + j * e_, scores + j,
                        kBlockColumns);
      }
    }
    for (int64_t i = 0; i < rows.size; ++i) WeighRow(addresses, rows, i, columns, s);
    for (int64_t i = 0; i < rows.size; i += mr) {
      for (int64_t j = 0; j < f_; j += nr) {
        kernel_.add_product(rows.size - i, f_ - j, columns.size, s.scores + i * kBlockColumns, kBlockColumns,
                            s.values + j * all, s.sums + i * padded_f_ + j, padded_f_);
      }
    }
  }

  // Row i of the block: scores to weights, as far as the row sees them, and what came before to the new maximum.
  void WeighRow(const preheat_lib_addresses& addresses, Rows rows, int64_t i, Span columns, const Scratch& s) const {
    float* scores = s.scores + i * kBlockColumns;
    const int64_t row = rows.begin + i;
    const int64_t seen = masks_.Seen(row, columns);
    if (seen > 0) {
      masks_.Apply(addresses.epilogue, rows.matrix, row, {columns.begin, seen}, scores);
      const float before = s.max[i];
      const float total = kernel_.weigh(seen, scores, &s.max[i]);
      if (s.total[i] != 0 && s.max[i] != before) {
        const float factor = std::exp(before - s.max[i]);
        s.total[i] *= factor;
        kernel_.scale(f_, factor, s.sums + i * padded_f_);
      }
      s.total[i] += total;
    }
    std::fill(scores + seen, scores + columns.size, 0.0F);
  }

  void WriteResult(const preheat_lib_addresses& addresses, Rows rows, const Scratch& s) const {
    float* to = static_cast<float*>(addresses.result) + out_.Offset(rows.matrix);
    for (int64_t i = 0; i < rows.size; ++i) {
      const bool nothing = s.total[i] == 0 && (safe_ || n_ == 0);
      const float factor = nothing ? 0 : 1 / s.total[i];
      WriteRow(kernel_, s.sums + i * padded_f_, f_, factor, out_, rows.begin + i, to);
    }
    if (!log_sums_) return;
    float* sums = static_cast<float*>(addresses.more_results[0]) + log_sums_->Offset(rows.matrix);
    for (int64_t i = 0; i < rows.size; ++i) {
      sums[(rows.begin + i) * log_sums_->row] = std::log(s.total[i]) + s.max[i];
    }
  }

  const AttentionKernel kernel_;
  const Matrices q_, k_, v_, out_;
  const Masks masks_;
  const float scale_;
  const int64_t m_, e_, n_, f_, padded_f_;
  std::optional<Matrices> log_sums_;
  size_t values_;  // the epilogue that gives v
  bool safe_ = false;
  int64_t task_rows_ = 0, tasks_a_matrix_ = 0;
};

}  // namespace

std::unique_ptr<PreparedCall> PrepareAttention(const CallSpec& call) { return std::make_unique<AttentionCall>(call); }

}  // namespace preheat::library
