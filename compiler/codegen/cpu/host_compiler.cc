#include "compiler/codegen/cpu/host_compiler.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "compiler/support/subprocess.h"

namespace preheat::codegen {
namespace {

namespace fs = std::filesystem;

std::string CompilerPath() {
  const char* named = getenv("PREHEAT_CXX");
  return named && *named ? named : "g++";
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::Status WriteFile(const std::string& path, absl::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), bytes.size());
  file.close();
  if (file.good()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted,
                   {.kind = "work_dir_full",
                    .message = absl::StrCat("cannot write ", path),
                    .where = "",
                    .fix = "free space in the temporary folder, or set TMPDIR to another"});
}

// A folder that goes with this object.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& parent) {
    std::error_code ignored;
    std::string base = parent.empty() ? fs::temp_directory_path(ignored).string() : parent;
    fs::create_directories(base, ignored);
    std::string pattern = base + "/preheat-XXXXXX";
    if (mkdtemp(pattern.data())) path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  absl::Status status() const {
    if (!path_.empty()) return absl::OkStatus();
    return MakeError(absl::StatusCode::kUnavailable, {.kind = "no_work_dir",
                                                      .message = "cannot make a temporary folder",
                                                      .where = "",
                                                      .fix = "set TMPDIR to a folder that can be written"});
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

absl::Status RunTool(const std::vector<std::string>& argv, const std::string& log, const std::string& kind) {
  SubprocessOptions options;
  options.log_file = log;
  auto process = Subprocess::Start(argv, options);
  if (!process.ok()) {
    return MakeError(absl::StatusCode::kUnavailable,
                     {.kind = "no_host_compiler",
                      .message = absl::StrCat("cannot start ", argv[0], ": ", process.status().message()),
                      .where = "",
                      .fix = "install g++ on the worker's machine, or name a compiler in PREHEAT_CXX"});
  }
  ProcessEnd end = (*process)->Wait();
  if (end.Clean()) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInternal,
      {.kind = kind,
       .message = absl::StrCat(argv[0], " ended with ", end.ToString(), ": ", ReadFile(log).substr(0, 4000)),
       .where = "",
       .fix = "this is a defect of Preheat: please report it with the source from compilectl show --source"});
}

}  // namespace

absl::StatusOr<std::string> HostCompiler() {
  static const absl::StatusOr<std::string> version = []() -> absl::StatusOr<std::string> {
    TemporaryFolder folder("");
    RETURN_IF_ERROR(folder.status());
    std::string log = folder.path() + "/version";
    RETURN_IF_ERROR(RunTool({CompilerPath(), "-dumpfullversion"}, log, "no_host_compiler"));
    std::string text = ReadFile(log);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return absl::StrCat(fs::path(CompilerPath()).filename().string(), " ", text);
  }();
  return version;
}

std::vector<std::string> KernelFlags(const CpuTarget& target) {
  std::vector<std::string> flags = {"-x", "c++", "-std=c++17", "-O3", "-fPIC", "-c", "-w",
                                    "-fopenmp-simd",  // pragmas of loops, no library
                                    "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fwrapv",
                                    "-fno-tree-loop-distribute-patterns",  // would call memset and memcpy
                                    "-fno-tree-pre",  // makes selects between bools that the vectorizer does not take
                                    // Selects that exclude each other would become branches around what a loop folds,
                                    // and GCC 12 then takes a fold's own vector for an array of the loop.
                                    "-fno-thread-jumps", "-fno-exceptions", "-fno-rtti",
                                    "-fno-asynchronous-unwind-tables", "-fno-stack-protector", "-fno-ident",
                                    "-frandom-seed=preheat"};
  for (const std::string& flag : target.CompilerFlags()) flags.push_back(flag);
  return flags;
}

absl::StatusOr<std::vector<std::string>> CompileObjects(const std::vector<std::string>& sources,
                                                        const CpuTarget& target, const std::string& work_dir,
                                                        int threads, const std::atomic<bool>* cancelled) {
  TemporaryFolder folder(work_dir);
  RETURN_IF_ERROR(folder.status());
  std::vector<std::string> objects(sources.size());
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  absl::Status first;
  auto work = [&] {
    for (size_t i = next++; i < sources.size(); i = next++) {
      if (cancelled && *cancelled) return;
      std::string base = absl::StrCat(folder.path(), "/k", i);
      absl::Status status = WriteFile(base + ".cc", sources[i]);
      std::vector<std::string> argv = {CompilerPath()};
      for (const std::string& flag : KernelFlags(target)) argv.push_back(flag);
      argv.insert(argv.end(), {base + ".cc", "-o", base + ".o"});
      if (status.ok()) status = RunTool(argv, base + ".log", "kernel_compile_failed");
      if (status.ok()) {
        objects[i] = ReadFile(base + ".o");
        continue;
      }
      std::lock_guard<std::mutex> lock(mutex);
      if (first.ok()) first = status;
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < std::min<int>(threads, static_cast<int>(sources.size())); ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  if (cancelled && *cancelled) return absl::CancelledError("compilation was cancelled");
  RETURN_IF_ERROR(first);
  return objects;
}

absl::StatusOr<std::string> LinkShared(const std::vector<std::string>& objects, const std::string& work_dir) {
  TemporaryFolder folder(work_dir);
  RETURN_IF_ERROR(folder.status());
  std::string out = folder.path() + "/code.so";
  std::vector<std::string> argv = {CompilerPath(),        "-shared", "-nostdlib", "-Wl,-z,defs",
                                   "-Wl,--build-id=none", "-Wl,-s",  "-o",        out};
  for (size_t i = 0; i < objects.size(); ++i) {
    std::string path = absl::StrCat(folder.path(), "/", i, ".o");
    RETURN_IF_ERROR(WriteFile(path, objects[i]));
    argv.push_back(path);
  }
  RETURN_IF_ERROR(RunTool(argv, folder.path() + "/log", "kernel_link_failed"));
  return ReadFile(out);
}

}  // namespace preheat::codegen
