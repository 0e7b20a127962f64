#include "compiler/codegen/cuda/nvrtc.h"

#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda/nvrtc_helpers.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::codegen {
namespace {

// The part of NVRTC's C interface that is used here; results are 0 when all went well.
using Program = void*;
struct Nvrtc {
  int (*version)(int* major, int* minor) = nullptr;
  int (*create)(Program*, const char* source, const char* name, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int count, const char* const* options) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
};

std::vector<std::string> Matches(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found = {};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return paths;
}

std::vector<std::string> Candidates() {
  if (const char* named = std::getenv("PREHEAT_NVRTC"); named != nullptr && *named != 0) return {named};
  std::vector<std::string> paths = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  auto add = [&](const std::string& pattern) {
    for (std::string& path : Matches(pattern)) paths.push_back(std::move(path));
  };
  if (const char* environment = std::getenv("VIRTUAL_ENV"); environment != nullptr && *environment != 0) {
    add(absl::StrCat(environment, "/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[0-9]"));
  }
  add("/usr/local/cuda*/lib*/libnvrtc.so.1[0-9]");
  return paths;
}

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

absl::StatusOr<Nvrtc> Open() {
  for (const std::string& path : Candidates()) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    Nvrtc n;
    if (Find(library, "nvrtcVersion", &n.version) && Find(library, "nvrtcCreateProgram", &n.create) &&
        Find(library, "nvrtcDestroyProgram", &n.destroy) && Find(library, "nvrtcCompileProgram", &n.compile) &&
        Find(library, "nvrtcGetCUBINSize", &n.cubin_size) && Find(library, "nvrtcGetCUBIN", &n.cubin) &&
        Find(library, "nvrtcGetProgramLogSize", &n.log_size) && Find(library, "nvrtcGetProgramLog", &n.log)) {
      return n;
    }
    dlclose(library);
  }
  return MakeError(
      absl::StatusCode::kUnavailable,
      {.kind = "no_nvrtc",
       .message = "libnvrtc, which compiles CUDA kernels, was not found",
       .where = "",
       .fix =
           "install CUDA 12 or later or the Python package nvidia-cuda-nvrtc, or name the library in PREHEAT_NVRTC"});
}

const absl::StatusOr<Nvrtc>& Library() {
  static const absl::StatusOr<Nvrtc>& library = *new absl::StatusOr<Nvrtc>(Open());
  return library;
}

// The number before `word` in "ptxas info : Used 40 registers, ...": the sum over all places.
int64_t NumbersBefore(const std::string& log, const std::string& word) {
  int64_t sum = 0;
  for (size_t at = log.find(word); at != std::string::npos; at = log.find(word, at + 1)) {
    size_t begin = at;
    while (begin > 0 && (absl::ascii_isdigit(log[begin - 1]))) --begin;
    int64_t value = 0;
    if (absl::SimpleAtoi(log.substr(begin, at - begin), &value)) sum += value;
  }
  return sum;
}

// Destroys its program with itself.
class OneProgram {
 public:
  OneProgram(const Nvrtc& nvrtc, const std::string& source) : n_(nvrtc) {
    if (n_.create(&program_, source.c_str(), "kernel.cu", 0, nullptr, nullptr) != 0) program_ = nullptr;
  }
  OneProgram(const OneProgram&) = delete;
  ~OneProgram() {
    if (program_ != nullptr) n_.destroy(&program_);
  }

  absl::StatusOr<Cubin> Compile(const std::vector<std::string>& flags) {
    std::vector<const char*> options;
    for (const std::string& flag : flags) options.push_back(flag.c_str());
    if (program_ == nullptr || n_.compile(program_, static_cast<int>(options.size()), options.data()) != 0)
      return Failed();
    Cubin cubin;
    size_t size = 0;
    if (n_.cubin_size(program_, &size) != 0 || size == 0) return Failed();
    cubin.bytes.resize(size);
    if (n_.cubin(program_, cubin.bytes.data()) != 0) return Failed();
    std::string log = Log();
    cubin.registers = static_cast<int>(NumbersBefore(log, " registers"));
    cubin.spill_bytes = NumbersBefore(log, " bytes spill stores");
    return cubin;
  }

 private:
  std::string Log() const {
    size_t size = 0;
    if (program_ == nullptr || n_.log_size(program_, &size) != 0 || size == 0) return "";
    std::string log(size, 0);
    n_.log(program_, log.data());
    log.resize(size - 1);
    return log;
  }
  absl::Status Failed() const {
    return MakeError(
        absl::StatusCode::kInternal,
        {.kind = "kernel_compile_failed",
         .message = absl::StrCat("NVRTC: ", Log().substr(0, 4000)),
         .where = "",
         .fix = "this is a defect of Preheat: please report it with the source from compilectl show --source"});
  }

  const Nvrtc& n_;
  Program program_ = nullptr;
};

// A thread's share of the helper processes: one, or none, where this process compiles.
class LeasedHelper {
 public:
  LeasedHelper() : helper_(NvrtcHelpers::OfProcess().Take()) {}
  ~LeasedHelper() {
    if (helper_ != nullptr) NvrtcHelpers::OfProcess().Give(std::move(helper_));
  }
  LeasedHelper(const LeasedHelper&) = delete;
  LeasedHelper& operator=(const LeasedHelper&) = delete;

  // What the helper cannot compile, or did not live to, this process tries.
  absl::StatusOr<Cubin> Compile(const std::string& source, const std::vector<std::string>& flags) {
    if (helper_ != nullptr && helper_->alive()) {
      if (std::optional<Cubin> cubin = helper_->Compile(source, flags)) return *std::move(cubin);
    }
    return CompileCubin(source, flags);
  }

 private:
  std::unique_ptr<NvrtcHelper> helper_;
};

// The longest take the longest as a rule: begun last they would be waited for.
std::vector<size_t> LongestFirst(const std::vector<std::string>& sources) {
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sources[a].size() > sources[b].size(); });
  return order;
}

}  // namespace

absl::StatusOr<std::string> NvrtcVersion() {
  RETURN_IF_ERROR(Library().status());
  int major = 0, minor = 0;
  Library()->version(&major, &minor);
  return absl::StrCat("nvrtc ", major, ".", minor);
}

std::vector<std::string> NvrtcFlags(const CudaTarget& target) {
  return {absl::StrCat("--gpu-architecture=", target.Architecture()), "--std=c++17", "--disable-warnings",
          "--frandom-seed=preheat", "--ptxas-options=-v"};
}

absl::StatusOr<Cubin> CompileCubin(const std::string& source, const std::vector<std::string>& flags) {
  RETURN_IF_ERROR(Library().status());
  return OneProgram(*Library(), source).Compile(flags);
}

absl::Status WarmNvrtc() {
  return CompileCubin("extern \"C\" __global__ void warm(int* p) { *p = 0; }", {"--gpu-architecture=sm_90"}).status();
}

absl::StatusOr<std::vector<Cubin>> CompileCubins(const std::vector<std::string>& sources, const CudaTarget& target,
                                                 int threads, const std::atomic<bool>* cancelled) {
  RETURN_IF_ERROR(Library().status());
  const std::vector<std::string> flags = NvrtcFlags(target);
  const std::vector<size_t> order = LongestFirst(sources);
  std::vector<Cubin> cubins(sources.size());
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  absl::Status first;
  auto work = [&] {
    LeasedHelper helper;
    for (size_t n = next++; n < sources.size(); n = next++) {
      if (cancelled != nullptr && *cancelled) return;
      const size_t i = order[n];
      absl::StatusOr<Cubin> cubin = helper.Compile(sources[i], flags);
      if (cubin.ok()) {
        cubins[i] = *std::move(cubin);
        continue;
      }
      std::lock_guard<std::mutex> lock(mutex);
      if (first.ok()) first = cubin.status();
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < std::min<int>(threads, static_cast<int>(sources.size())); ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  if (cancelled != nullptr && *cancelled) return absl::CancelledError("compilation was cancelled");
  RETURN_IF_ERROR(first);
  return cubins;
}

}  // namespace preheat::codegen
