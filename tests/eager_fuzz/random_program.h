#ifndef PREHEAT_TESTS_EAGER_FUZZ_RANDOM_PROGRAM_H_
#define PREHEAT_TESTS_EAGER_FUZZ_RANDOM_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/capture/aten_program.h"
#include "compiler/ir/host_tensor.h"

namespace preheat::testing {

// A program of random ATen operators that eager accepts, and how its inputs are made.
struct RandomProgram {
  capture::AtenProgram program;
  ir::SymbolValues symbols;  // sizes at which eager has run it
  struct Values {
    ir::DType dtype;
    enum class Kind { kQuarters, kReal, kSpecial, kIndex } kind;  // multiples of 1/4; any; with NaN, infinities, -0
    ir::Expr bound = 4;                                           // kIndex: values in [0, bound)
    std::vector<bool> repeated;  // by dimension: all elements along it are one in memory (stride 0)
  };
  std::vector<Values> values;  // one an input
};

// The same for a seed, always. About `size` operators from every family that Preheat compiles natively: pointwise
// with type promotion and broadcasting, reductions, scans, softmax and norms, views, joins, casts, indexing, scatters,
// sorts, products, convolutions, pooling. Tensors of 0 dimensions and of 0 elements; inputs that are permuted, have
// gaps or repeat; outputs in permuted layouts; a third of the programs have symbolic sizes.
//
// Every operator is tried on the spot: eager decides whether it is well formed, and eager in float64 whether its
// result is well conditioned. Operators whose results jump (comparisons, casts to integers, floor) are applied only to
// values that carry no rounding error, so that each honest way of computing gives the same. INTERNAL when a result's
// size is not the one that the generator has derived.
absl::StatusOr<RandomProgram> MakeRandomProgram(uint64_t seed, int size);

// Values of input `index` under these sizes, dense; of all inputs.
ir::HostTensor Generate(const RandomProgram& program, size_t index, const ir::SymbolValues& symbols, uint64_t seed);
std::vector<ir::HostTensor> InputsFor(const RandomProgram& program, const ir::SymbolValues& symbols, uint64_t seed);

// What eager computes, in its own types or in float64 (integers stay integers), dense.
absl::StatusOr<std::vector<ir::HostTensor>> RunEager(const capture::AtenProgram& program,
                                                     const std::vector<ir::HostTensor>& inputs,
                                                     const ir::SymbolValues& symbols, bool float64);

// An element as a number. REQUIRES: not complex.
double NumberAt(const ir::HostTensor& tensor, int64_t i);

// How far eager lies from float64, element by element: 0 where both are NaN or the same infinity, infinite where only
// one is. Both have the same sizes.
double ErrorAt(const ir::HostTensor& got, const ir::HostTensor& wide, int64_t i);

}  // namespace preheat::testing

#endif  // PREHEAT_TESTS_EAGER_FUZZ_RANDOM_PROGRAM_H_
