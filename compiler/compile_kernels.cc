#include "compiler/compile_kernels.h"

#include <algorithm>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/cpu/host_compiler.h"
#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat {

absl::StatusOr<std::string> CompileKernels(const std::vector<codegen::EmittedKernel>& kernels, const CpuTarget& target,
                                           const CompileOptions& options) {
  if (kernels.empty()) return std::string();
  ASSIGN_OR_RETURN(std::string compiler, codegen::HostCompiler());
  std::string toolchain = absl::StrCat(compiler, "\n", absl::StrJoin(codegen::KernelFlags(target), " "), "\n");
  std::vector<std::string> keys;
  for (const codegen::EmittedKernel& kernel : kernels) keys.push_back(Digest(absl::StrCat(toolchain, kernel.source)));
  std::map<std::string, std::string> known;
  if (options.kernels.lookup) known = options.kernels.lookup(keys);
  std::vector<size_t> missing;
  std::vector<std::string> sources;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (known.count(keys[i])) continue;
    missing.push_back(i);
    sources.push_back(kernels[i].source);
  }
  int threads = std::max(1u, std::thread::hardware_concurrency());
  ASSIGN_OR_RETURN(std::vector<std::string> objects,
                   codegen::CompileObjects(sources, target, options.work_dir, threads, options.cancelled));
  std::map<std::string, std::string> made;
  for (size_t i = 0; i < missing.size(); ++i) made[keys[missing[i]]] = std::move(objects[i]);
  if (options.kernels.publish && !made.empty()) options.kernels.publish(made);
  known.insert(made.begin(), made.end());
  std::vector<std::string> all;
  for (const std::string& key : keys) all.push_back(known[key]);
  return codegen::LinkShared(all, options.work_dir);
}

}  // namespace preheat
