#ifndef PREHEAT_COMPILER_REFERENCE_REFERENCE_H_
#define PREHEAT_COMPILER_REFERENCE_REFERENCE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/capture/aten_program.h"
#include "compiler/reference/inputs/host_tensor.h"

namespace preheat::reference {

// Runs programs by torch's dispatcher on the CPU: what eager computes, in eager's own types or in float64.
// The header needs no torch; the library does. Random operators draw from torch's default generator.

struct ReferenceOptions {
  // Floating tensors, and dtype arguments that name f16, bf16 or f32, become f64 (complex: c128); so do outputs.
  bool float64 = false;
  // Values of symbols; those that are missing are read off the inputs' sizes.
  std::map<std::string, int64_t> symbols;
  uint64_t seed = 0;                             // of torch's generator, set before each run
  int threads = 0;                               // torch's intra-op threads; 0 leaves them as they are
  const std::atomic<bool>* cancelled = nullptr;  // asked between nodes: CANCELLED once it is set
};

// One tensor for each output of the program in order, the new contents of mutated inputs among them; an output that
// is None has rank 0 and no bytes. Outputs are dense and row-major. `inputs`: one for each input, sizes as 0-d i64;
// they are not written. Safe from several threads, but torch's generator is shared by all.
// UNIMPLEMENTED "unknown_operator" names an operator that this torch lacks, "no_float64_form" one that has no meaning
// in float64; INVALID_ARGUMENT "reference_failed" carries what torch said, with the node as `where`.
absl::StatusOr<std::vector<HostTensor>> RunReference(const capture::AtenProgram& program,
                                                     absl::Span<const HostTensor> inputs,
                                                     const ReferenceOptions& options);

struct Timed {
  std::vector<HostTensor> outputs;  // of the last run
  double median_ms = 0;             // of the walk alone: tensors are made before, outputs copied after
  double p99_ms = 0;
};

// The same `repeat` times (at least once) after one run to warm up: eager's time without Python.
absl::StatusOr<Timed> TimeReference(const capture::AtenProgram& program, absl::Span<const HostTensor> inputs,
                                    const ReferenceOptions& options, int repeat);

}  // namespace preheat::reference

#endif  // PREHEAT_COMPILER_REFERENCE_REFERENCE_H_
