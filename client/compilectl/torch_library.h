#ifndef PREHEAT_CLIENT_COMPILECTL_TORCH_LIBRARY_H_
#define PREHEAT_CLIENT_COMPILECTL_TORCH_LIBRARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/torch/preheat_torch.h"
#include "compiler/capture/aten_program.h"
#include "compiler/reference/inputs/host_tensor.h"

namespace preheat::cli {

// libpreheat_torch, opened when torch is there. It stays open: torch does not bear being unloaded.
class TorchLibrary {
 public:
  // The one library of this process: PREHEAT_TORCH, or beside this program in ../lib or ., or where the system looks.
  // FAILED_PRECONDITION "no_torch" says why there is none.
  static absl::StatusOr<const TorchLibrary*> Get();

  preheat_extern_handler extern_handler() const { return extern_; }

  struct Timing {
    double p50_ms, p99_ms;
  };
  // Eager's time for the program.
  absl::StatusOr<Timing> Time(const capture::AtenProgram& program, absl::Span<const preheat_tensor> inputs,
                              int repeat) const;

  // The tensors of a file that torch.save wrote, in order.
  absl::StatusOr<std::vector<reference::HostTensor>> ReadTensors(const std::string& file) const;

 private:
  static absl::StatusOr<TorchLibrary> Open();

  decltype(&preheat_torch_free) free_ = nullptr;
  decltype(&preheat_torch_extern) extern_ = nullptr;
  decltype(&preheat_torch_time) time_ = nullptr;
  decltype(&preheat_torch_open) open_ = nullptr;
  decltype(&preheat_torch_num_tensors) num_tensors_ = nullptr;
  decltype(&preheat_torch_tensor) tensor_ = nullptr;
  decltype(&preheat_torch_close) close_ = nullptr;
};

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_TORCH_LIBRARY_H_
