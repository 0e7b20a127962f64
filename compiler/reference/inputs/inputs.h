#ifndef PREHEAT_COMPILER_REFERENCE_INPUTS_INPUTS_H_
#define PREHEAT_COMPILER_REFERENCE_INPUTS_INPUTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/capture/aten_program.h"
#include "compiler/reference/inputs/host_tensor.h"

namespace preheat::reference {

// Inputs that `run` and `verify` make up, the same on every machine:
//   parameters   U(-1/sqrt(n), 1/sqrt(n)), n = the product of all sizes but the first (of one dimension: its size)
//   variances    U(0.5, 1.5): what reaches the running_var of a batch norm
//   other floats N(0, 1), as the sum of twelve uniform numbers less 6, which is exact in every libm
//   integers     uniform in [0, n), n = the least bound of the embeddings, gathers and indices that consume them;
//                without such a consumer n is 2, since what is left are mostly masks
//   booleans     even
// The element at row-major position i of input k is a function of (seed, k, i) alone: splitmix64 of the three.
struct InputOptions {
  uint64_t seed = 0;
  std::map<std::string, int64_t> symbols;  // every symbol of the program: see CompleteSymbols
  std::map<int, HostTensor> given;         // by input number, with any strides; dtype and sizes are checked
  int64_t max_bytes = int64_t{16} << 30;   // of all together
};

// One tensor for each input of the program, frozen ones included, with the strides that the program declares.
// INVALID_ARGUMENT "unbound_symbol", "shape_mismatch", RESOURCE_EXHAUSTED "inputs_too_large" beyond max_bytes.
absl::StatusOr<std::vector<HostTensor>> GenerateInputs(const capture::AtenProgram& program,
                                                       const InputOptions& options);

// `symbols` with values for those that are missing: what `given` inputs say, else small sizes (8 where the range
// allows) that keep every guard. FAILED_PRECONDITION "no_sizes_found" if a short search finds none.
absl::StatusOr<std::map<std::string, int64_t>> CompleteSymbols(const capture::AtenProgram& program,
                                                               const std::map<std::string, int64_t>& symbols,
                                                               const std::map<int, HostTensor>& given = {});

}  // namespace preheat::reference

#endif  // PREHEAT_COMPILER_REFERENCE_INPUTS_INPUTS_H_
