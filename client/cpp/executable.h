#ifndef PREHEAT_CLIENT_CPP_EXECUTABLE_H_
#define PREHEAT_CLIENT_CPP_EXECUTABLE_H_

#include <dlpack/dlpack.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/runtime/preheat_runtime.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat {

// An executable bound to its frozen inputs: owns packed weights and arenas. Copies share one session.
// Run may be called from several threads at once; Refresh may not overlap with runs.
class Session {
 public:
  // `inputs`: every input that is not frozen, in the program's order; `outputs`: memory for every output that
  // mutates no input. Tensors without strides are dense. INVALID_ARGUMENT "layout_mismatch", "dtype_mismatch",
  // "shape_mismatch", OUT_OF_RANGE "size_out_of_range" or what a kernel found.
  absl::Status Run(absl::Span<const DLTensor> inputs, absl::Span<const DLTensor> outputs, void* stream = nullptr) const;
  // The same with the runtime's own tensors.
  absl::Status Run(absl::Span<const preheat_tensor> inputs, absl::Span<const preheat_tensor> outputs,
                   void* stream = nullptr) const;

  // Frozen inputs have changed their contents; not empty: their tensors too.
  absl::Status Refresh(absl::Span<const DLTensor> frozen = {}) const;

  preheat_session* get() const { return session_.get(); }

 private:
  friend class Executable;
  explicit Session(preheat_session* session) : session_(session, preheat_session_release) {}
  std::shared_ptr<preheat_session> session_;
};

// What an artifact needs before it runs.
struct BindOptions {
  std::vector<DLTensor> frozen;  // the frozen inputs in order: memory is borrowed until release or Refresh
  int device = 0;
  preheat_extern_handler extern_handler = nullptr;  // client/torch has one; without it extern calls are refused
  void* extern_context = nullptr;
};

// An artifact, loaded: immutable. Copies share it; thread-safe.
class Executable {
 public:
  // `blobs`: the plan and the code that `result`'s manifest names, by digest; checked again by the runtime.
  // `code_dir`: where code is kept as files; "" for a private temporary folder. `threads`: 0 for OpenMP's choice.
  static absl::StatusOr<Executable> Load(v1::CompileResult result, const std::map<std::string, std::string>& blobs,
                                         const std::string& code_dir, int threads);

  absl::StatusOr<Session> Bind(const BindOptions& options) const;
  // The same with the runtime's own tensors.
  absl::StatusOr<Session> Bind(absl::Span<const preheat_tensor> frozen, const BindOptions& options) const;

  const std::string& key() const { return result_->key(); }
  // As the server answered: manifest, inputs, outputs, extern operators.
  const v1::CompileResult& result() const { return *result_; }
  preheat_executable* get() const { return executable_.get(); }

 private:
  Executable() = default;
  std::shared_ptr<const v1::CompileResult> result_;
  std::shared_ptr<preheat_executable> executable_;
};

// The status that the runtime's stands for; frees it. OK for null.
absl::Status FromRuntime(preheat_status* status);

}  // namespace preheat

#endif  // PREHEAT_CLIENT_CPP_EXECUTABLE_H_
