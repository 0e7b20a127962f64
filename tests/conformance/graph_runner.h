#ifndef PREHEAT_TESTS_CONFORMANCE_GRAPH_RUNNER_H_
#define PREHEAT_TESTS_CONFORMANCE_GRAPH_RUNNER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/host_tensor.h"
#include "kernels/device/device.h"

namespace preheat::testing {

// A graph through Compile and libpreheat_runtime: dense inputs in, outputs (gathered to dense) out, with arena and
// outputs poisoned before the run.
class GraphRunner {
 public:
  // `symbols`: the sizes at which it will run.
  static absl::StatusOr<GraphRunner> Make(ir::Graph graph, const std::string& target,
                                          const codegen::Schedules& schedules = {});
  // What has been compiled already, for a CPU.
  static GraphRunner Of(ir::Graph graph, Artifact artifact);
  const Artifact& artifact() const { return artifact_; }
  const ir::Graph& graph() const { return canonical_.graph; }
  // On a GPU `gpu_runs` times: step by step, recorded, and from then on with every tensor elsewhere. `unaligned`: from
  // then on where only their elements are aligned.
  absl::StatusOr<std::vector<ir::HostTensor>> Run(const std::vector<ir::HostTensor>& inputs,
                                                  const ir::SymbolValues& symbols, bool unaligned = false,
                                                  int gpu_runs = 3) const;

 private:
  Canonical canonical_;
  Artifact artifact_;
  std::unique_ptr<Device> gpu_;  // of a GPU's target
};

// Random values that suit a dtype: floats in [-2, 2], integers and positions in [0, `bound`).
ir::HostTensor RandomTensor(ir::DType dtype, const std::vector<int64_t>& shape, uint64_t seed, int64_t bound = 4);

// Inputs for a graph under these symbols.
absl::StatusOr<std::vector<ir::HostTensor>> RandomInputs(const ir::Graph& graph, const ir::SymbolValues& symbols,
                                                         uint64_t seed);

// The first disagreement in words, empty when there is none: NaN equals NaN, floats within a tolerance of their dtype
// relative to the output's largest magnitude (and to 1/2: sums cancel), integers exactly.
std::string Differ(const ir::HostTensor& got, const ir::HostTensor& want);

}  // namespace preheat::testing

#endif  // PREHEAT_TESTS_CONFORMANCE_GRAPH_RUNNER_H_
