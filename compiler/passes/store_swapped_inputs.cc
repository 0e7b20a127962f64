#include "compiler/passes/store_swapped_inputs.h"

#include <set>

#include "compiler/passes/stored.h"
#include "compiler/rewrite/rebuild.h"
#include "compiler/support/status_macros.h"

namespace preheat::passes {

absl::StatusOr<ir::Graph> StoreSwappedInputs(const ir::Graph& graph) {
  rewrite::Rebuild r(graph);
  for (const ir::Node& node : graph.nodes()) RETURN_IF_ERROR(r.Copy(node));
  std::set<ir::Value> written, swapped;
  for (const ir::GraphOutput& output : graph.outputs()) {
    if (output.mutates >= 0) written.insert(graph.input_values()[static_cast<size_t>(output.mutates)]);
  }
  for (const ir::GraphOutput& output : graph.outputs()) {
    if (output.mutates >= 0 && written.count(output.value) != 0) swapped.insert(output.value);
  }
  for (ir::Value input : swapped) r.Replace(input, Stored(r.builder(), r.Map(input)));
  return r.Finish();
}

}  // namespace preheat::passes
