#include "compiler/compile_kernels.h"

#include <algorithm>
#include <functional>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/cpu/host_compiler.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

// Code by key, from the store where it has it, otherwise from `make`, which gets the numbers of the missing kernels.
absl::StatusOr<std::vector<std::string>> FromStoreOr(
    const std::vector<codegen::EmittedKernel>& kernels, const std::string& toolchain, const CompileOptions& options,
    const std::function<absl::StatusOr<std::vector<std::string>>(const std::vector<size_t>& missing)>& make) {
  std::vector<std::string> keys;
  for (const codegen::EmittedKernel& kernel : kernels) keys.push_back(Digest(absl::StrCat(toolchain, kernel.source)));
  std::map<std::string, std::string> known;
  if (options.kernels.lookup) known = options.kernels.lookup(keys);
  std::vector<size_t> missing;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!known.count(keys[i])) missing.push_back(i);
  }
  ASSIGN_OR_RETURN(std::vector<std::string> code, make(missing));
  std::map<std::string, std::string> made;
  for (size_t i = 0; i < missing.size(); ++i) made[keys[missing[i]]] = std::move(code[i]);
  if (options.kernels.publish && !made.empty()) options.kernels.publish(made);
  known.insert(made.begin(), made.end());
  std::vector<std::string> all;
  for (const std::string& key : keys) all.push_back(known[key]);
  return all;
}

int Threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

}  // namespace

absl::StatusOr<std::string> CompileKernels(const std::vector<codegen::EmittedKernel>& kernels, const CpuTarget& target,
                                           const CompileOptions& options) {
  if (kernels.empty()) return std::string();
  ASSIGN_OR_RETURN(std::string compiler, codegen::HostCompiler());
  std::string toolchain = absl::StrCat(compiler, "\n", absl::StrJoin(codegen::KernelFlags(target), " "), "\n");
  auto make = [&](const std::vector<size_t>& missing) {
    std::vector<std::string> sources;
    for (size_t i : missing) sources.push_back(kernels[i].source);
    return codegen::CompileObjects(sources, target, options.work_dir, Threads(), options.cancelled);
  };
  ASSIGN_OR_RETURN(std::vector<std::string> objects, FromStoreOr(kernels, toolchain, options, make));
  return codegen::LinkShared(objects, options.work_dir);
}

absl::StatusOr<std::vector<std::string>> CompileCudaKernels(const std::vector<codegen::EmittedKernel>& kernels,
                                                            const CudaTarget& target, const CompileOptions& options,
                                                            std::string* notes) {
  if (kernels.empty()) return std::vector<std::string>();
  ASSIGN_OR_RETURN(std::string compiler, codegen::NvrtcVersion());
  std::string toolchain = absl::StrCat(compiler, "\n", absl::StrJoin(codegen::NvrtcFlags(target), " "), "\n");
  auto make = [&](const std::vector<size_t>& missing) -> absl::StatusOr<std::vector<std::string>> {
    std::vector<std::string> sources, code;
    for (size_t i : missing) sources.push_back(kernels[i].source);
    ASSIGN_OR_RETURN(std::vector<codegen::Cubin> cubins,
                     codegen::CompileCubins(sources, target, Threads(), options.cancelled));
    for (size_t i = 0; i < missing.size(); ++i) {
      // NVRTC says nothing of what it has in a cache of its own.
      if (cubins[i].registers > 0) {
        absl::StrAppend(notes, "// ", kernels[missing[i]].symbol, ": ", cubins[i].registers, " registers, ",
                        cubins[i].spill_bytes, " bytes spilled\n");
      }
      code.push_back(std::move(cubins[i].bytes));
    }
    return code;
  };
  return FromStoreOr(kernels, toolchain, options, make);
}

}  // namespace preheat
