#ifndef PREHEAT_COMPILER_COMPILE_H_
#define PREHEAT_COMPILER_COMPILE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/capture/aten_program.h"
#include "compiler/codegen/schedule.h"
#include "compiler/ir/graph.h"

namespace preheat {

// The compiler's story, in two calls: Canonicalize says what a program is (and so its key), Compile makes the
// artifact. Neither touches the network, the cache or a device. Safe to call from several threads.

// Told now and then; `fraction` of the stage in [0, 1]. Stages: "import", "passes", "codegen", "compile".
using ProgressFn = std::function<void(absl::string_view stage, double fraction, absl::string_view detail)>;

// Kernels made before, by kernel key (digest of source, flags and toolchain). Both may be empty functions.
struct KernelStore {
  std::function<std::map<std::string, std::string>(const std::vector<std::string>& keys)> lookup;
  std::function<void(const std::map<std::string, std::string>& objects)> publish;
};

struct CompileOptions {
  std::string target;             // canonical: compiler/codegen/target.h
  std::set<std::string> exclude;  // operators kept as extern calls: "aten.gelu" or "aten.gelu.default"
  bool freeze = false;            // parameters, buffers and constants are frozen
  bool extern_allowed = true;     // false: extern calls are an error, "extern_needs_torch"
  std::set<std::string> disabled_passes;
  codegen::Schedules schedules;  // a tuner's; they change no key
  ProgressFn progress;
  KernelStore kernels;
  const std::atomic<bool>* cancelled = nullptr;  // set: Compile ends soon with CANCELLED
  std::string work_dir;                          // for sources and objects; empty: the temporary folder
};

// A program as the key sees it.
struct Canonical {
  capture::AtenProgram program;                                // functional, dims bound; what verify runs
  ir::Graph graph;                                             // core operators, before any pass
  std::string ir_text;                                         // the text of `graph`: the key's main field
  std::map<std::string, std::set<std::string>> left_to_torch;  // operators of extern calls, and why
  double seconds = 0;
};

// Imports, binds `dims`, functionalizes, lowers to core operators.
// `source` is a functional or raw program as an importer of compiler/capture gave it.
absl::StatusOr<Canonical> Canonicalize(capture::AtenProgram source, const std::map<std::string, int64_t>& dims,
                                       const CompileOptions& options);

struct KernelReport {
  std::string name, kind;
  std::vector<std::string> ops;  // ATen operators
  int64_t bytes = 0, flops = 0;  // with ranges: at the least sizes
};
// Where the program's course depends on what a tensor holds.
struct GraphBreak {
  std::string file;
  int line = 0;
  std::string reason;
};
struct Report {
  int kernels_before = 0, kernels_after = 0;
  std::vector<KernelReport> kernels;
  std::map<std::string, int> library_calls;
  std::map<std::string, std::pair<int, std::string>> extern_calls;  // op -> count, reason
  std::map<std::string, int> native_ops;                            // ATen op -> count
  std::vector<GraphBreak> graph_breaks;
  int64_t peak_bytes_before = 0, peak_bytes_after = 0;
};

struct Artifact {
  std::string plan;                         // compiler/artifact/plan.fbs
  std::map<std::string, std::string> code;  // digest -> bytes
  std::string source;                       // everything emitted, for people
  Report report;
  double passes_seconds = 0, codegen_seconds = 0, compile_seconds = 0;
};

absl::StatusOr<Artifact> Compile(const Canonical& canonical, const CompileOptions& options);

// Raised whenever the same canonical program would give other sources or another plan; a golden test
// (tests/golden) forces it up. Part of every key.
inline constexpr uint32_t kCompilerEpoch = 37;

// "g++ 12.2.0": what Compile calls for CPU code. UNAVAILABLE "no_host_compiler" when there is none.
absl::StatusOr<std::string> HostCompilerVersion();

// "nvrtc 13.0": what Compile calls for CUDA code. UNAVAILABLE "no_nvrtc" when there is none.
absl::StatusOr<std::string> DeviceCompilerVersion();

// Loads and starts what compiles CUDA code, on threads of its own, so that the first program need not wait for it.
void WarmDeviceCompiler();

}  // namespace preheat

#endif  // PREHEAT_COMPILER_COMPILE_H_
