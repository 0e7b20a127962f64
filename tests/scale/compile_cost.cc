// compile_cost KIND OPERATORS: what it costs to compile one program of large_program.h, stage by stage, and the most
// memory that the process held. One line; a process a program, since memory is never given back.

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "compiler/compile.h"
#include "kernels/runtime/preheat_runtime.h"
#include "tests/scale/large_program.h"

namespace preheat {
namespace {

long PeakMegabytes() {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

int Main(const std::string& kind, int operators) {
  capture::AtenProgram program = testing::MakeLargeProgram(kind, operators);
  const size_t nodes = program.nodes.size();
  CompileOptions options;
  options.target = preheat_host_target();
  auto canonical = Canonicalize(std::move(program), {}, options);
  auto artifact = canonical.ok() ? Compile(*canonical, options) : absl::StatusOr<Artifact>(canonical.status());
  if (!artifact.ok()) {
    std::cerr << artifact.status() << "\n";
    return 1;
  }
  std::printf("%s: %zu operators, import %.2f s, passes %.2f, codegen %.2f, host compiler and plan %.2f; %ld MB\n",
              kind.c_str(), nodes, canonical->seconds, artifact->passes_seconds, artifact->codegen_seconds,
              artifact->compile_seconds, PeakMegabytes());
  return 0;
}

}  // namespace
}  // namespace preheat

int main(int argc, char** argv) {
  if (argc == 3) return preheat::Main(argv[1], std::atoi(argv[2]));
  std::cerr << "compile_cost layers|training|optimizer OPERATORS\n";
  return 2;
}
