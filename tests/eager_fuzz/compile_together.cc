#include "tests/eager_fuzz/compile_together.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cpu/host_compiler.h"
#include "compiler/support/status_macros.h"
#include "compiler/support/subprocess.h"

namespace preheat::testing {
namespace {

namespace fs = std::filesystem;

// Helpers have the same names in every kernel's source: each keeps its own in a namespace.
std::string Joined(const std::vector<codegen::EmittedKernel>& kernels) {
  std::string text;
  std::set<std::string> seen;
  for (const codegen::EmittedKernel& kernel : kernels) {
    if (!seen.insert(kernel.symbol).second) continue;
    absl::StrAppend(&text, "namespace n", seen.size(), " {\n", kernel.source, "}\n");
  }
  return text;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::Status Run(const std::vector<std::string>& argv, const std::string& log) {
  SubprocessOptions options;
  options.log_file = log;
  ASSIGN_OR_RETURN(auto process, Subprocess::Start(argv, options));
  ProcessEnd end = process->Wait();
  if (end.Clean()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(argv[0], ": ", end.ToString(), " ", ReadFile(log).substr(0, 4000)));
}

absl::StatusOr<std::string> CompileIn(const std::string& folder, const std::vector<codegen::EmittedKernel>& kernels,
                                      const CpuTarget& target, const std::vector<std::string>& more) {
  std::ofstream(folder + "/k.cc") << Joined(kernels);
  std::vector<std::string> argv = {"g++"};
  for (const std::string& flag : codegen::KernelFlags(target)) argv.push_back(flag);
  argv.insert(argv.end(), more.begin(), more.end());
  argv.insert(argv.end(), {folder + "/k.cc", "-o", folder + "/k.o"});
  RETURN_IF_ERROR(Run(argv, folder + "/log"));
  return codegen::LinkShared({ReadFile(folder + "/k.o")}, folder);
}

}  // namespace

absl::StatusOr<std::string> CompileTogether(const std::vector<codegen::EmittedKernel>& kernels, const CpuTarget& target,
                                            const std::vector<std::string>& more) {
  if (kernels.empty()) return std::string();
  std::string pattern = fs::temp_directory_path().string() + "/preheat-fuzz-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) return absl::UnavailableError("no temporary folder");
  absl::StatusOr<std::string> code = CompileIn(pattern, kernels, target, more);
  fs::remove_all(pattern);
  return code;
}

}  // namespace preheat::testing
