#include "kernels/library/cuda/cublaslt.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/library/cuda/algorithm.h"

namespace preheat::library {
namespace {

// The part of cuBLASLt's C interface that is used here; results are 0 when all went well.
struct LtAlgorithm {
  uint64_t data[8];
};
struct Heuristic {
  LtAlgorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
struct Lt {
  int (*create)(void** handle);
  int (*desc_create)(void** desc, int compute, int scale);
  int (*desc_destroy)(void* desc);
  int (*desc_set)(void* desc, int attribute, const void* value, size_t bytes);
  int (*layout_create)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t stride);
  int (*layout_destroy)(void* layout);
  int (*layout_set)(void* layout, int attribute, const void* value, size_t bytes);
  int (*preference_create)(void** preference);
  int (*preference_destroy)(void* preference);
  int (*preference_set)(void* preference, int attribute, const void* value, size_t bytes);
  int (*heuristic)(void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference, int wanted,
                   Heuristic*, int* found);
  int (*check)(void* handle, void* desc, void* a, void* b, void* c, void* d, const LtAlgorithm*, Heuristic*);
  size_t (*version)();
  int (*matmul)(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b,
                void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                const LtAlgorithm*, void* workspace, size_t workspace_bytes, void* stream);
  void* handle = nullptr;
};
constexpr int kTransA = 3, kTransB = 4;  // attributes of a description
constexpr int kEpilogue = 7, kBiasPointer = 8;
constexpr int kBias = 4, kRelu = 2, kGeluTanh = 32;  // bits of an epilogue; none: 1
constexpr int kBatchCount = 5, kBatchStride = 6;     // of a layout
constexpr int kWorkspace = 1, kAlignmentA = 5;       // of a preference; B, C and D follow
constexpr int kR32F = 0, kR64F = 1, kR16F = 2, kR16BF = 14, kCompute32F = 68, kCompute64F = 70;
constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;  // at most
constexpr uintptr_t kAnyAddress = 4096;
constexpr int kMostProposals = 63;

absl::Status Unsupported(std::string message) {
  return MakeError(absl::StatusCode::kUnimplemented, {.kind = "unsupported_library_call",
                                                      .message = std::move(message),
                                                      .where = "",
                                                      .fix = "exclude the operator, so that torch runs it"});
}

absl::StatusOr<Lt> Open() {
  const char* named = std::getenv("PREHEAT_CUBLASLT");
  void* library = nullptr;
  if (named != nullptr && *named != 0) {
    library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
  } else {
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
  }
  Lt lt = {};
  bool found = library != nullptr;
  const auto find = [&](const char* name, auto* function) {
    *reinterpret_cast<void**>(function) = found ? dlsym(library, name) : nullptr;
    found = found && *reinterpret_cast<void**>(function) != nullptr;
  };
  find("cublasLtCreate", &lt.create);
  find("cublasLtMatmulDescCreate", &lt.desc_create);
  find("cublasLtMatmulDescDestroy", &lt.desc_destroy);
  find("cublasLtMatmulDescSetAttribute", &lt.desc_set);
  find("cublasLtMatrixLayoutCreate", &lt.layout_create);
  find("cublasLtMatrixLayoutDestroy", &lt.layout_destroy);
  find("cublasLtMatrixLayoutSetAttribute", &lt.layout_set);
  find("cublasLtMatmulPreferenceCreate", &lt.preference_create);
  find("cublasLtMatmulPreferenceDestroy", &lt.preference_destroy);
  find("cublasLtMatmulPreferenceSetAttribute", &lt.preference_set);
  find("cublasLtMatmulAlgoGetHeuristic", &lt.heuristic);
  find("cublasLtMatmulAlgoCheck", &lt.check);
  find("cublasLtGetVersion", &lt.version);
  find("cublasLtMatmul", &lt.matmul);
  if (found && lt.create(&lt.handle) == 0) return lt;
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      {.kind = "no_cublaslt",
       .message = "cuBLASLt, which multiplies matrices on a GPU, was not found or does not start",
       .where = "",
       .fix = "install CUDA 12 or later or the Python package nvidia-cublas, or name the library in PREHEAT_CUBLASLT"});
}

absl::StatusOr<const Lt*> Library() {
  static const absl::StatusOr<Lt>& lt = *new absl::StatusOr<Lt>(Open());
  if (!lt.ok()) return lt.status();
  return &*lt;
}

// The last two dimensions of a tensor as cuBLASLt's column-major matrix of `rows` by `columns`, or of its transpose.
struct Matrix {
  int64_t rows = 0, columns = 0, stride = 0;
  bool transposed = false;
};

// rows, columns: of the wanted matrix, with their strides.
absl::StatusOr<Matrix> AsMatrix(int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride) {
  const bool rows_dense = row_stride == 1 || rows == 1, columns_dense = column_stride == 1 || columns == 1;
  if (rows_dense && (columns == 1 || column_stride >= rows)) {
    return Matrix{rows, columns, columns == 1 ? rows : column_stride, false};
  }
  if (columns_dense && (rows == 1 || row_stride >= columns)) {
    return Matrix{columns, rows, rows == 1 ? columns : row_stride, true};
  }
  return Unsupported("a matrix product's operand has no dense dimension");
}

// The same for contiguous rows only, which are columns of the transpose.
absl::StatusOr<Matrix> AsRows(int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride) {
  if ((column_stride == 1 || columns == 1) && (rows == 1 || row_stride >= columns)) {
    return Matrix{columns, rows, rows == 1 ? columns : row_stride, true};
  }
  return Unsupported("a sum with a matrix product whose rows are not contiguous");
}

// One batch dimension that cuBLASLt walks, and outer ones that are looped over.
struct Batches {
  int64_t count = 1;
  int64_t strides[4] = {0, 0, 0, 0};  // a, b, result, residual
  std::vector<int64_t> outer_sizes;
  std::vector<int64_t> outer_strides[4];
};

// What is added to the product, one value an element of the result; null without.
const TensorSpec* ResidualOf(const CallSpec& call) {
  for (const EpilogueSpec& step : call.epilogue) {
    if (step.op == PREHEAT_LIB_RESIDUAL) return &step.operand;
  }
  return nullptr;
}

Batches BatchesOf(const CallSpec& call) {
  const TensorSpec* residual = ResidualOf(call);
  const TensorSpec* tensors[4] = {&call.operands[0], &call.operands[1], &call.result,
                                  residual != nullptr ? residual : &call.result};
  const int rank = call.result.rank();
  Batches b;
  int d = rank - 3;
  while (d >= 0 && call.result.sizes[d] == 1) --d;
  if (d < 0) return b;
  b.count = call.result.sizes[d];
  for (int i = 0; i < 4; ++i) b.strides[i] = tensors[i]->strides[d];
  for (--d; d >= 0; --d) {
    if (call.result.sizes[d] == 1) continue;
    bool joins = b.outer_sizes.empty();
    for (int i = 0; i < 4; ++i) joins = joins && tensors[i]->strides[d] == b.strides[i] * b.count;
    if (joins) {
      b.count *= call.result.sizes[d];
      continue;
    }
    b.outer_sizes.push_back(call.result.sizes[d]);
    for (int i = 0; i < 4; ++i) b.outer_strides[i].push_back(tensors[i]->strides[d]);
  }
  return b;
}

class LtMatmul : public PreparedCall {
 public:
  explicit LtMatmul(const Lt& lt) : lt_(lt) {}
  ~LtMatmul() override {
    for (void* layout : {first_, second_, result_, residual_}) {
      if (layout != nullptr) lt_.layout_destroy(layout);
    }
    if (desc_ != nullptr) lt_.desc_destroy(desc_);
  }

  absl::string_view provider() const override { return "cublaslt"; }
  int64_t scratch_bytes() const override { return scratch_bytes_; }

  absl::Status Prepare(const CallSpec& call) {
    RETURN_IF_ERROR(ChooseTypes(call.result.dtype));
    batches_ = BatchesOf(call);
    empty_ = call.result.elements() == 0;
    if (empty_) return absl::OkStatus();
    const int r = call.result.rank();
    const TensorSpec &a = call.operands[0], &b = call.operands[1], &c = call.result;
    const int64_t m = c.sizes[r - 2], n = c.sizes[r - 1], k = a.sizes[r - 1];
    if (k == 0) return Unsupported("a matrix product over no elements");
    RETURN_IF_ERROR(ReadEpilogue(call));
    // The result in columns: itself, or its transpose, whose factors are exchanged. What is added wants the latter: a
    // bias is one value a row then.
    const bool adds = has_bias_ || ResidualOf(call) != nullptr;
    ASSIGN_OR_RETURN(const Matrix plain, adds ? AsRows(m, c.strides[r - 2], n, c.strides[r - 1])
                                              : AsMatrix(m, c.strides[r - 2], n, c.strides[r - 1]));
    swapped_ = plain.transposed;
    Matrix first, second;
    if (swapped_) {
      ASSIGN_OR_RETURN(first, AsMatrix(n, b.strides[r - 1], k, b.strides[r - 2]));
      ASSIGN_OR_RETURN(second, AsMatrix(k, a.strides[r - 1], m, a.strides[r - 2]));
    } else {
      ASSIGN_OR_RETURN(first, AsMatrix(m, a.strides[r - 2], k, a.strides[r - 1]));
      ASSIGN_OR_RETURN(second, AsMatrix(k, b.strides[r - 2], n, b.strides[r - 1]));
    }
    RETURN_IF_ERROR(
        Ok(lt_.desc_create(&desc_, double_ ? kCompute64F : kCompute32F, double_ ? kR64F : kR32F), "description"));
    RETURN_IF_ERROR(SetTransposed(kTransA, first));
    RETURN_IF_ERROR(SetTransposed(kTransB, second));
    RETURN_IF_ERROR(SetEpilogue());
    RETURN_IF_ERROR(MakeLayout(first, batches_.strides[swapped_ ? 1 : 0], &first_));
    RETURN_IF_ERROR(MakeLayout(second, batches_.strides[swapped_ ? 0 : 1], &second_));
    RETURN_IF_ERROR(MakeLayout(plain, batches_.strides[2], &result_));
    RETURN_IF_ERROR(MakeResidual(call, plain));
    // Who has nothing for odd addresses may still have something for good ones.
    has_any_ = Choose(static_cast<uint32_t>(size_), 0, &any_).ok();
    const Algorithm wanted = ReadAlgorithm("cublaslt", lt_.version(), call);
    RETURN_IF_ERROR(Choose(16, wanted.rank, &aligned_));
    if (!wanted.stored.empty()) Restore(wanted.stored);
    const absl::string_view bytes(reinterpret_cast<const char*>(&aligned_), sizeof(aligned_));
    algorithm_ = WriteAlgorithm("cublaslt", lt_.version(), call, bytes);
    return absl::OkStatus();
  }

  std::string algorithm() const override { return algorithm_; }

  absl::Status Run(const preheat_lib_addresses& addresses) const override {
    if (empty_) return absl::OkStatus();
    std::vector<int64_t> index(batches_.outer_sizes.size(), 0);
    while (true) {
      int64_t offsets[4] = {0, 0, 0, 0};
      for (int i = 0; i < 4; ++i) {
        for (size_t d = 0; d < index.size(); ++d) offsets[i] += index[d] * batches_.outer_strides[i][d] * size_;
      }
      const void* residual = residual_ != nullptr ? addresses.epilogue[has_bias_ ? 1 : 0] : nullptr;
      RETURN_IF_ERROR(Multiply(static_cast<const char*>(addresses.operands[0]) + offsets[0],
                               static_cast<const char*>(addresses.operands[1]) + offsets[1],
                               residual != nullptr ? static_cast<const char*>(residual) + offsets[3] : nullptr,
                               static_cast<char*>(addresses.result) + offsets[2], addresses));
      size_t d = 0;
      while (d < index.size() && ++index[d] == batches_.outer_sizes[d]) index[d++] = 0;
      if (d == index.size()) return absl::OkStatus();
    }
  }

 private:
  absl::Status ChooseTypes(int32_t dtype) {
    switch (static_cast<DType>(dtype)) {
      case DType::kF32: type_ = kR32F, size_ = 4; break;
      case DType::kF64: type_ = kR64F, size_ = 8, double_ = true; break;
      case DType::kF16: type_ = kR16F, size_ = 2; break;
      case DType::kBF16: type_ = kR16BF, size_ = 2; break;
      default: return Unsupported("a matrix product of integers on a GPU");
    }
    return absl::OkStatus();
  }

  static absl::Status Ok(int status, absl::string_view what) {
    if (status == 0) return absl::OkStatus();
    return MakeError(absl::StatusCode::kInternal, {.kind = "cublaslt_error",
                                                   .message = absl::StrCat("cuBLASLt: ", what, " gave status ", status),
                                                   .where = "",
                                                   .fix = ""});
  }

  // A bias, a residual and an activation, in this order, as far as each is there.
  absl::Status ReadEpilogue(const CallSpec& call) {
    bool residual = false;
    for (const EpilogueSpec& step : call.epilogue) {
      if (activation_ != 0) return Unsupported("an epilogue behind an activation on a GPU");
      const auto dense = [](const TensorSpec& t) { return t.strides[0] == 1 || t.sizes[0] == 1; };
      if (step.op == PREHEAT_LIB_BIAS && !has_bias_ && !residual && dense(step.operand)) {
        has_bias_ = true;
      } else if (step.op == PREHEAT_LIB_RESIDUAL && !residual) {
        residual = true;
      } else if (step.op == PREHEAT_LIB_RELU || step.op == PREHEAT_LIB_GELU_TANH) {
        activation_ = step.op == PREHEAT_LIB_RELU ? kRelu : kGeluTanh;
      } else {
        return Unsupported("an epilogue of a matrix product that cuBLASLt does not have");
      }
    }
    if (double_ && (has_bias_ || activation_ != 0)) return Unsupported("an epilogue in float64 on a GPU");
    return absl::OkStatus();
  }

  absl::Status SetEpilogue() {
    const int32_t epilogue = (has_bias_ ? kBias : 0) | activation_;
    if (epilogue == 0) return absl::OkStatus();
    return Ok(lt_.desc_set(desc_, kEpilogue, &epilogue, sizeof(epilogue)), "epilogue");
  }

  absl::Status MakeResidual(const CallSpec& call, const Matrix& result) {
    const TensorSpec* t = ResidualOf(call);
    if (t == nullptr) return absl::OkStatus();
    const int r = t->rank();
    // In columns as the result is; a dimension of one element has any stride.
    const int row = swapped_ ? r - 1 : r - 2, column = swapped_ ? r - 2 : r - 1;
    if (t->strides[row] != 1 && t->sizes[row] != 1)
      return Unsupported("a residual that lies otherwise than the result");
    if (t->sizes[column] != 1 && t->strides[column] < t->sizes[row]) return Unsupported("a residual that is broadcast");
    Matrix matrix = result;
    matrix.stride = t->sizes[column] == 1 ? t->sizes[row] : t->strides[column];
    return MakeLayout(matrix, batches_.strides[3], &residual_);
  }

  absl::Status SetTransposed(int attribute, const Matrix& matrix) {
    const int32_t operation = matrix.transposed ? 1 : 0;
    return Ok(lt_.desc_set(desc_, attribute, &operation, sizeof(operation)), "transposition");
  }

  absl::Status MakeLayout(const Matrix& matrix, int64_t batch_stride, void** layout) {
    RETURN_IF_ERROR(Ok(lt_.layout_create(layout, type_, static_cast<uint64_t>(matrix.rows),
                                         static_cast<uint64_t>(matrix.columns), matrix.stride),
                       "layout"));
    if (batches_.count == 1) return absl::OkStatus();
    const int32_t count = static_cast<int32_t>(batches_.count);
    RETURN_IF_ERROR(Ok(lt_.layout_set(*layout, kBatchCount, &count, sizeof(count)), "batch count"));
    return Ok(lt_.layout_set(*layout, kBatchStride, &batch_stride, sizeof(batch_stride)), "batch stride");
  }

  // The library's own proposal `rank` for addresses of this alignment; the first where it has not so many.
  absl::Status Choose(uint32_t alignment, int rank, LtAlgorithm* algorithm) {
    RETURN_IF_ERROR(SayBias(alignment));
    void* preference = nullptr;
    RETURN_IF_ERROR(Ok(lt_.preference_create(&preference), "preference"));
    const uint64_t workspace = static_cast<uint64_t>(kWorkspaceBytes);
    int status = lt_.preference_set(preference, kWorkspace, &workspace, sizeof(workspace));
    for (int i = 0; i < 4 && status == 0; ++i)
      status = lt_.preference_set(preference, kAlignmentA + i, &alignment, sizeof(alignment));
    std::vector<Heuristic> best(static_cast<size_t>(std::clamp(rank, 0, kMostProposals)) + 1);
    int found = 0;
    if (status == 0)
      status = lt_.heuristic(lt_.handle, desc_, first_, second_, Added(), result_, preference,
                             static_cast<int>(best.size()), best.data(), &found);
    lt_.preference_destroy(preference);
    RETURN_IF_ERROR(Ok(status, "heuristic"));
    if (found == 0) return Unsupported("cuBLASLt has no algorithm for this matrix product");
    const Heuristic& taken = found == static_cast<int>(best.size()) && best.back().state == 0 ? best.back() : best[0];
    *algorithm = taken.algorithm;
    scratch_bytes_ = std::max(scratch_bytes_, static_cast<int64_t>(taken.workspace));
    return absl::OkStatus();
  }

  // An algorithm of an artifact's instead of the proposal, if the library says that it does on this GPU.
  void Restore(const std::string& bytes) {
    LtAlgorithm stored = {};
    if (bytes.size() != sizeof(stored) || !SayBias(16).ok()) return;
    std::memcpy(&stored, bytes.data(), sizeof(stored));
    Heuristic checked = {};
    if (lt_.check(lt_.handle, desc_, first_, second_, Added(), result_, &stored, &checked) != 0) return;
    if (checked.state != 0 || checked.workspace > static_cast<size_t>(kWorkspaceBytes)) return;
    aligned_ = stored;
    scratch_bytes_ = std::max(scratch_bytes_, static_cast<int64_t>(checked.workspace));
  }

  // Of a bias's address the library looks at the alignment; each run names its own.
  absl::Status SayBias(uint32_t alignment) {
    if (!has_bias_) return absl::OkStatus();
    const uintptr_t somewhere = kAnyAddress + alignment;
    return Ok(lt_.desc_set(desc_, kBiasPointer, &somewhere, sizeof(somewhere)), "bias");
  }

  void* Added() const { return residual_ != nullptr ? residual_ : result_; }

  // One product into `c`. `residual` is null without one.
  absl::Status Multiply(const void* a, const void* b, const void* residual, void* c,
                        const preheat_lib_addresses& addresses) const {
    const float one = 1, zero = 0;
    const double one_double = 1, zero_double = 0;
    const void* alpha = double_ ? static_cast<const void*>(&one_double) : &one;
    const void* none = double_ ? static_cast<const void*>(&zero_double) : &zero;
    const void* bias = has_bias_ ? addresses.epilogue[0] : nullptr;
    uintptr_t all = 0;
    for (const void* address : {a, b, residual, bias, static_cast<const void*>(c)}) {
      all |= reinterpret_cast<uintptr_t>(address);
    }
    const bool aligned = all % 16 == 0;
    if (!aligned && !has_any_) return Unsupported("a matrix product of tensors that are not aligned to 16 bytes");
    std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
    if (has_bias_) {  // its address is part of the description, which is shared
      lock.lock();
      RETURN_IF_ERROR(Ok(lt_.desc_set(desc_, kBiasPointer, &bias, sizeof(bias)), "bias"));
    }
    return Ok(lt_.matmul(lt_.handle, desc_, alpha, swapped_ ? b : a, first_, swapped_ ? a : b, second_,
                         residual != nullptr ? alpha : none, residual != nullptr ? residual : c,
                         residual != nullptr ? residual_ : result_, c, result_, aligned ? &aligned_ : &any_,
                         addresses.scratch, static_cast<size_t>(scratch_bytes_), addresses.stream),
              "the product");
  }

  const Lt& lt_;
  Batches batches_;
  int type_ = 0;
  int64_t size_ = 0;
  int64_t scratch_bytes_ = 0;  // of both algorithms
  bool double_ = false, swapped_ = false, empty_ = false, has_bias_ = false, has_any_ = false;
  int32_t activation_ = 0;
  void *desc_ = nullptr, *first_ = nullptr, *second_ = nullptr, *result_ = nullptr, *residual_ = nullptr;
  LtAlgorithm aligned_ = {}, any_ = {};
  std::string algorithm_;     // the aligned one, as artifacts keep it
  mutable std::mutex mutex_;  // held while a product with a bias is enqueued
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedCall>> PrepareCublasLt(const CallSpec& call) {
  ASSIGN_OR_RETURN(const Lt* lt, Library());
  auto prepared = std::make_unique<LtMatmul>(*lt);
  RETURN_IF_ERROR(prepared->Prepare(call));
  return std::unique_ptr<PreparedCall>(std::move(prepared));
}

}  // namespace preheat::library
