#include "kernels/library/attention_grad.h"

#include <algorithm>

#include "kernels/library/attention_parts.h"
#include "kernels/library/micro_kernel.h"
#include "kernels/library/task_call.h"

namespace preheat::library {
namespace {

constexpr int64_t kBlockRows = 48;      // of scores at once; a multiple of every mr
constexpr int64_t kBlockColumns = 192;  // a multiple of every mr and nr

// One thread's memory. "Panels" as PackPanels makes them; rows are padded to blocks.
struct Scratch {
  float *queries, *query_panels;    // [m, e], scaled
  float *gradients, *grad_panels;   // [m, f]
  float *log_sums, *dots;           // [m]
  float* dq;                        // [m, e padded]
  float *key_columns, *key_panels;  // of a block: panels [e, nr] of its columns; panels [columns, nr] of e
  float* value_columns;             // panels [f, nr] of the block's columns
  float *scores, *products;         // [block rows, block columns]
  float *dk, *dv;                   // [block columns, e padded], [block columns, f padded]
};

class AttentionGradCall : public TaskCall {
 public:
  explicit AttentionGradCall(const CallSpec& call)
      : kernel_(HostMicroKernels().attention),
        tail_(call.epilogue.size() - 4),
        q_(call.operands[0]),
        k_(Matrices(call.operands[1]).Transposed()),
        v_(call.epilogue[tail_].operand),
        gradient_(call.epilogue[tail_ + 1].operand),
        output_(call.epilogue[tail_ + 2].operand),
        log_sums_(call.epilogue[tail_ + 3].operand),
        dq_(call.result),
        dk_(call.more_results[0]),
        dv_(call.more_results[1]),
        masks_(call),
        scale_(static_cast<float>(call.scale)),
        m_(call.operands[0].sizes[call.operands[0].rank() - 2]),
        e_(call.operands[0].sizes.back()),
        n_(call.operands[1].sizes.back()),
        f_(call.more_results[1].sizes.back()),
        padded_e_(RoundUp(e_, kernel_.nr)),
        padded_f_(RoundUp(f_, kernel_.nr)) {
    int64_t matrices = 1;
    for (int64_t size : dq_.sizes) matrices *= size;
    FloatParts parts(nullptr);
    Divide(parts);
    SetTasks(matrices, m_ * n_ * (e_ + f_), parts.used());
  }

 private:
  Scratch Divide(FloatParts& parts) const {
    const int64_t rows = RoundUp(m_, kBlockRows);
    Scratch s;
    s.queries = parts.Take(rows * e_), s.query_panels = parts.Take(rows * padded_e_);
    s.gradients = parts.Take(rows * f_), s.grad_panels = parts.Take(rows * padded_f_);
    s.log_sums = parts.Take(rows), s.dots = parts.Take(rows);
    s.dq = parts.Take(rows * padded_e_);
    s.key_columns = parts.Take(kBlockColumns * e_), s.key_panels = parts.Take(kBlockColumns * padded_e_);
    s.value_columns = parts.Take(kBlockColumns * f_);
    s.scores = parts.Take(kBlockRows * kBlockColumns), s.products = parts.Take(kBlockRows * kBlockColumns);
    s.dk = parts.Take(kBlockColumns * padded_e_), s.dv = parts.Take(kBlockColumns * padded_f_);
    return s;
  }

  static const float* First(const void* address, const Matrices& m, int64_t matrix) {
    return static_cast<const float*>(address) + m.Offset(matrix);
  }

  void RunTask(const preheat_lib_addresses& addresses, int64_t matrix, float* memory) const override {
    FloatParts parts(memory);
    const Scratch s = Divide(parts);
    ReadRows(addresses, matrix, s);
    const float* keys = First(addresses.operands[1], k_, matrix);
    const float* values = First(addresses.epilogue[tail_], v_, matrix);
    for (int64_t begin = 0; begin < n_; begin += kBlockColumns) {
      const Span columns{begin, std::min(kBlockColumns, n_ - begin)};
      PackTransposedPanels(kernel_, keys, k_, columns, e_, s.key_columns);
      PackPanels(kernel_, keys, k_, columns, e_, s.key_panels);
      PackTransposedPanels(kernel_, values, v_, columns, f_, s.value_columns);
      std::fill_n(s.dk, kBlockColumns * padded_e_, 0.0F);
      std::fill_n(s.dv, kBlockColumns * padded_f_, 0.0F);
      for (int64_t i = 0; i < m_; i += kBlockRows) {
        AddBlock(addresses, matrix, {i, std::min(kBlockRows, m_ - i)}, columns, s);
      }
      Write(s.dk, padded_e_, columns, e_, 1, dk_, addresses.more_results[0], matrix);
      Write(s.dv, padded_f_, columns, f_, 1, dv_, addresses.more_results[1], matrix);
    }
    Write(s.dq, padded_e_, {0, m_}, e_, scale_, dq_, addresses.result, matrix);
  }

  void ReadRows(const preheat_lib_addresses& addresses, int64_t matrix, const Scratch& s) const {
    const Span all{0, m_};
    CopyRows(kernel_, First(addresses.operands[0], q_, matrix), q_, all, e_, scale_, s.queries);
    CopyRows(kernel_, First(addresses.epilogue[tail_ + 1], gradient_, matrix), gradient_, all, f_, 1, s.gradients);
    const int64_t rows = RoundUp(m_, kBlockRows);
    std::fill(s.queries + m_ * e_, s.queries + rows * e_, 0.0F);
    std::fill(s.gradients + m_ * f_, s.gradients + rows * f_, 0.0F);
    std::fill_n(s.dq, rows * padded_e_, 0.0F);
    PackPanels(kernel_, s.queries, Dense(e_), all, e_, s.query_panels);
    PackPanels(kernel_, s.gradients, Dense(f_), all, f_, s.grad_panels);
    const float* output = First(addresses.epilogue[tail_ + 2], output_, matrix);
    const float* log_sums = First(addresses.epilogue[tail_ + 3], log_sums_, matrix);
    for (int64_t i = 0; i < m_; ++i) {
      s.dots[i] = Dot(s.gradients + i * f_, output + i * output_.row);
      s.log_sums[i] = log_sums[i * log_sums_.row];
    }
  }

  // A row of gradients times one of the outputs.
  float Dot(const float* gradients, const float* outputs) const {
    if (output_.column == 1) return kernel_.dot(f_, gradients, outputs);
    float dot = 0;
    for (int64_t c = 0; c < f_; ++c) dot += gradients[c] * outputs[c * output_.column];
    return dot;
  }

  static Matrices Dense(int64_t columns) { return Matrices(TensorSpec{0, {1, columns}, {columns, 1}}); }

  // What a block of the scores adds to all three gradients.
  void AddBlock(const preheat_lib_addresses& addresses, int64_t matrix, Span rows, Span columns,
                const Scratch& s) const {
    const int64_t seen = masks_.SeenBefore(rows.begin + rows.size, columns);
    if (seen == 0) return;
    Multiply(s.queries + rows.begin * e_, e_, rows.size, s.key_columns, seen, s.scores);
    Multiply(s.gradients + rows.begin * f_, f_, rows.size, s.value_columns, seen, s.products);
    for (int64_t i = 0; i < rows.size; ++i) {
      float *scores = s.scores + i * kBlockColumns, *products = s.products + i * kBlockColumns;
      const int64_t row = rows.begin + i, own = masks_.Seen(row, columns);
      masks_.Apply(addresses.epilogue, matrix, row, {columns.begin, own}, scores);
      kernel_.differentiate(own, s.log_sums[row], s.dots[row], scores, products);
      std::fill(scores + own, scores + RoundUp(seen, kernel_.mr), 0.0F);
      std::fill(products + own, products + RoundUp(seen, kernel_.mr), 0.0F);
    }
    AddColumns(s.scores, rows, seen, s.grad_panels, padded_f_, s.dv);
    AddColumns(s.products, rows, seen, s.query_panels, padded_e_, s.dk);
    for (int64_t i = 0; i < rows.size; i += kernel_.mr) {
      for (int64_t c = 0; c < e_; c += kernel_.nr) {
        kernel_.add_product(rows.size - i, e_ - c, seen, s.products + i * kBlockColumns, kBlockColumns,
                            s.key_panels + c * columns.size, s.dq + (rows.begin + i) * padded_e_ + c, padded_e_);
      }
    }
  }

  // to[rows, columns] = left[rows, depth] times panels [depth, nr] of the columns.
  void Multiply(const float* left, int64_t depth, int64_t rows, const float* panels, int64_t columns, float* to) const {
    for (int64_t i = 0; i < rows; i += kernel_.mr) {
      for (int64_t j = 0; j < columns; j += kernel_.nr) {
        kernel_.product(rows - i, columns - j, depth, left + i * depth, depth, panels + j * depth,
                        to + i * kBlockColumns + j, kBlockColumns);
      }
    }
  }

  // to[columns, width] += block[rows, columns]' times those rows of all m rows' panels.
  void AddColumns(const float* block, Span rows, int64_t columns, const float* panels, int64_t width, float* to) const {
    for (int64_t j = 0; j < columns; j += kernel_.mr) {
      for (int64_t c = 0; c < width; c += kernel_.nr) {
        kernel_.add_product_of_columns(rows.size, block + j, kBlockColumns, panels + c * m_ + rows.begin * kernel_.nr,
                                       to + j * width + c, width);
      }
    }
  }

  void Write(const float* from, int64_t width, Span rows, int64_t columns, float factor, const Matrices& m,
             void* address, int64_t matrix) const {
    float* to = static_cast<float*>(address) + m.Offset(matrix);
    for (int64_t i = 0; i < rows.size; ++i) {
      WriteRow(kernel_, from + i * width, columns, factor, m, rows.begin + i, to);
    }
  }

  const AttentionKernel kernel_;
  const size_t tail_;  // the first epilogue behind the masks
  const Matrices q_, k_, v_, gradient_, output_, log_sums_, dq_, dk_, dv_;
  const Masks masks_;
  const float scale_;
  const int64_t m_, e_, n_, f_, padded_e_, padded_f_;
};

}  // namespace

std::unique_ptr<PreparedCall> PrepareAttentionGrad(const CallSpec& call) {
  return std::make_unique<AttentionGradCall>(call);
}

}  // namespace preheat::library
