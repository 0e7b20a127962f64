#ifndef PREHEAT_COMPILER_PASSES_PIPELINE_H_
#define PREHEAT_COMPILER_PASSES_PIPELINE_H_

#include <atomic>
#include <functional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/ir/graph.h"

namespace preheat::passes {

// A pass: a graph into an equivalent one with the same boundary. Pure, safe to call from several threads.
using PassFn = absl::StatusOr<ir::Graph> (*)(const ir::Graph&);

// The targets that a pass is for.
enum class For { kAll, kCpu, kGpu };

struct Pass {
  absl::string_view name;    // of its file and function; one that runs twice stands twice
  absl::string_view reason;  // why here
  PassFn run;
  For targets = For::kAll;
};

// All passes in order.
absl::Span<const Pass> Passes();

struct PassEvent {
  absl::string_view name;
  double seconds;
  bool changed;
  size_t nodes;  // afterwards
};

#ifdef NDEBUG
inline constexpr bool kVerifyByDefault = false;
#else
inline constexpr bool kVerifyByDefault = true;
#endif

struct PipelineOptions {
  std::set<std::string> disabled{};                 // names of passes to leave out
  std::function<void(const PassEvent&)> on_pass{};  // after each pass that ran; called on this thread
  bool verify = kVerifyByDefault;                   // the graph before, and after each pass
  const std::atomic<bool>* cancelled = nullptr;     // looked at before each pass
  bool gpu = false;                                 // the target is one
};

// Runs all passes for the target. INVALID_ARGUMENT "unknown_pass" for a disabled name that no pass has; CANCELLED;
// INTERNAL, naming the pass, when one fails or what it leaves does not verify.
absl::StatusOr<ir::Graph> RunPipeline(ir::Graph graph, const PipelineOptions& options);

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_PIPELINE_H_
