// NVRTC, the CUDA driver and cuBLASLt as far as Preheat uses them, on the host: named in PREHEAT_NVRTC,
// PREHEAT_CUDA_DRIVER and PREHEAT_CUBLASLT, this library lets compiler and runtime go their whole way without a GPU. A
// "cubin" is a shared object made by g++.
//
// Threads of a block are fibers. Each runs to its next barrier before the next one starts, in turn upwards and
// downwards, so that a missing barrier shows as a wrong result.
#include "tests/emulator/emulator.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

// --- Blocks of threads ---

struct Dim3 {
  unsigned x, y, z;
};
struct Thread {  // as in prelude.h
  Dim3 thread, block, threads, blocks;
  char* dynamic;
  long long* slots;
  void (*block_barrier)();
  void (*warp_barrier)();
};

constexpr size_t kStack = 256 << 10;

enum class State { kReady, kAtBlockBarrier, kAtWarpBarrier, kDone };

struct Fiber {
  ucontext_t context;
  State state = State::kReady;
};

std::mutex g_mutex;  // one launch at a time
ucontext_t g_scheduler;
std::vector<Fiber> g_fibers;
size_t g_running = 0;
void (*g_kernel)(long*) = nullptr;
long* g_arguments = nullptr;

void YieldAs(State state) {
  g_fibers[g_running].state = state;
  swapcontext(&g_fibers[g_running].context, &g_scheduler);
}
void BlockBarrier() { YieldAs(State::kAtBlockBarrier); }
void WarpBarrier() { YieldAs(State::kAtWarpBarrier); }
void FiberMain() {
  g_kernel(g_arguments);
  YieldAs(State::kDone);
}

char* Stack(size_t fiber) {
  static std::vector<char*> stacks;
  while (stacks.size() <= fiber) {
    stacks.push_back(static_cast<char*>(
        mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)));
  }
  return stacks[fiber];
}

void SetThread(Thread& t, size_t i) {
  t.thread = {static_cast<unsigned>(i % t.threads.x), static_cast<unsigned>(i / t.threads.x % t.threads.y),
              static_cast<unsigned>(i / t.threads.x / t.threads.y)};
}

// Lets those go on that stand at a barrier which all of their warp, or their block, have reached. False: a deadlock.
bool Release(size_t count) {
  bool any = false;
  for (size_t warp = 0; warp < count; warp += 32) {
    const size_t end = std::min(count, warp + 32);
    bool all = true, some = false;
    for (size_t i = warp; i < end; ++i) {
      all &= g_fibers[i].state == State::kAtWarpBarrier;
      some |= g_fibers[i].state == State::kAtWarpBarrier;
    }
    if (!all || !some) continue;
    for (size_t i = warp; i < end; ++i) g_fibers[i].state = State::kReady;
    any = true;
  }
  if (any) return true;
  for (size_t i = 0; i < count; ++i) {
    if (g_fibers[i].state != State::kAtBlockBarrier && g_fibers[i].state != State::kDone) return false;
  }
  for (size_t i = 0; i < count; ++i) {
    if (g_fibers[i].state == State::kAtBlockBarrier) g_fibers[i].state = State::kReady, any = true;
  }
  return any;
}

bool RunFibers(Thread& t, size_t count) {
  g_fibers.resize(std::max(g_fibers.size(), count));
  for (size_t i = 0; i < count; ++i) {
    Fiber& fiber = g_fibers[i];
    fiber.state = State::kReady;
    getcontext(&fiber.context);
    fiber.context.uc_stack = {Stack(i), 0, kStack};
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, FiberMain, 0);
  }
  for (bool upwards = true;; upwards = !upwards) {
    for (size_t k = 0; k < count; ++k) {
      g_running = upwards ? k : count - 1 - k;
      if (g_fibers[g_running].state != State::kReady) continue;
      SetThread(t, g_running);
      swapcontext(&g_scheduler, &g_fibers[g_running].context);
    }
    if (std::all_of(g_fibers.begin(), g_fibers.begin() + static_cast<long>(count),
                    [](const Fiber& f) { return f.state == State::kDone; }))
      return true;
    if (!Release(count)) return false;
  }
}

struct KernelFunction {
  void (*run)(long* arguments) = nullptr;
  Thread** thread = nullptr;
  bool fibers = false;
};

bool RunBlock(const KernelFunction& kernel, Thread& t) {
  const size_t count = size_t{t.threads.x} * t.threads.y * t.threads.z;
  if (kernel.fibers) return RunFibers(t, count);
  for (size_t i = 0; i < count; ++i) {
    SetThread(t, i);
    kernel.run(g_arguments);
  }
  return true;
}

// --- Graphs ---

// What stands in a graph: a launch, or what was captured. Of the nodes that need not wait the last added one is done
// first: whoever relies on the order of adding is found out.
struct Graph;
struct Node {
  std::function<int()> run;
  std::vector<Node*> after;
};
struct Graph {
  std::vector<Node*> nodes;
};
struct Stream {
  Graph* capture = nullptr;  // not null: work is put there instead of being done
};

}  // namespace

int Do(void* stream, std::function<int()> work) {
  auto* s = static_cast<Stream*>(stream);
  if (s == nullptr || s->capture == nullptr) return work();
  Graph& graph = *s->capture;  // in the order of the calls
  graph.nodes.push_back(
      new Node{std::move(work), graph.nodes.empty() ? std::vector<Node*>() : std::vector{graph.nodes.back()}});
  return 0;
}

namespace {

int RunGraph(const Graph& graph) {
  std::vector<Node*> waiting = graph.nodes;
  while (!waiting.empty()) {
    const auto is_waiting = [&](Node* n) { return std::find(waiting.begin(), waiting.end(), n) != waiting.end(); };
    const auto ready = std::find_if(waiting.rbegin(), waiting.rend(), [&](const Node* node) {
      return std::none_of(node->after.begin(), node->after.end(), is_waiting);
    });
    if (ready == waiting.rend()) return 1;
    if (const int result = (*ready)->run(); result != 0) return result;
    waiting.erase(std::next(ready).base());
  }
  return 0;
}

// Whether a graph holds all of these nodes.
bool Holds(const Graph& graph, void* const* nodes, size_t count) {
  return std::all_of(nodes, nodes + count, [&](void* node) {
    return std::find(graph.nodes.begin(), graph.nodes.end(), node) != graph.nodes.end();
  });
}
std::vector<Node*> NodeList(void* const* nodes, size_t count) {
  std::vector<Node*> list;
  for (size_t i = 0; i < count; ++i) list.push_back(static_cast<Node*>(nodes[i]));
  return list;
}

struct KernelNode {  // CUDA_KERNEL_NODE_PARAMS_v2
  void* function;
  unsigned grid[3], block[3], shared_bytes;
  void **parameters, **extra;
  void *kernel, *context;
};

// --- Sources to shared objects ---

struct Program {
  std::string source, log, code;
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A function that takes the arguments as an array, and what the emulator wants to know.
std::string Adapted(const std::string& source) {
  std::string text = "#include \"" PREHEAT_SOURCE_DIR "/tests/emulator/prelude.h\"\n" + source;
  const std::string dynamic = "extern __shared__ __align__(16) char dynamic[];";
  if (size_t at = text.find(dynamic); at != std::string::npos)
    text.replace(at, dynamic.size(), "char* dynamic = preheat_thread->dynamic;");
  std::smatch match;
  const std::regex head("extern \"C\" __global__ void (?:__launch_bounds__\\([0-9, ]+\\) )?(\\w+)\\(([^)]*)\\)");
  if (!std::regex_search(source, match, head)) return text;
  std::stringstream parameters(match[2].str());
  std::string call, parameter, behind;  // behind: a table of pointers, which comes first
  for (int i = 0; std::getline(parameters, parameter, ','); ++i) {
    std::string type = parameter.substr(0, parameter.rfind(' '));
    if (size_t at = type.find("__restrict__"); at != std::string::npos) type.erase(at);
    if (type.find("__grid_constant__") != std::string::npos) {
      call = "*(Table*)a", behind = "sizeof(Table) / 8 - 1 + ";
      continue;
    }
    call += (i ? ", (" : "(") + type + ")a[" + behind + std::to_string(i) + "]";
  }
  const bool fibers = source.find("__sync") != std::string::npos || source.find("__shfl") != std::string::npos;
  return text + "extern \"C\" void " + match[1].str() + "__call(long* a) { " + match[1].str() + "(" + call + "); }\n" +
         "extern \"C\" { extern const int preheat_fibers; const int preheat_fibers = " + (fibers ? "1" : "0") + "; }\n";
}

// A number in the environment, which may change at any time; 0 without.
int Setting(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : 0;
}

int CompileProgram(Program& program) {
  const std::string refused =
      "__launch_bounds__(" + std::to_string(Setting("PREHEAT_EMULATED_UNCOMPILED_THREADS")) + ")";
  if (program.source.find(refused) != std::string::npos) return program.log = "refused: " + refused, 6;
  char folder[] = "/tmp/preheat-emulator-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  const std::string base = std::string(folder) + "/k";
  std::ofstream(base + ".cc") << Adapted(program.source);
  const std::string command =
      "g++ -std=c++17 -O1 -fwrapv -fPIC -shared -w -s -o " + base + ".so " + base + ".cc 2> " + base + ".log";
  const int status = std::system(command.c_str());
  program.log = ReadFile(base + ".log");
  if (status == 0) program.code = ReadFile(base + ".so");
  for (const char* end : {".cc", ".so", ".log"}) std::remove((base + end).c_str());
  rmdir(folder);
  return status == 0 ? 0 : 6;
}

// A shared object ends with its table of sections.
size_t ImageSize(const void* image) {
  const auto& header = *static_cast<const Elf64_Ehdr*>(image);
  return header.e_shoff + size_t{header.e_shentsize} * header.e_shnum;
}

// --- Matrix products ---

struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t stride;
  int32_t batch = 1;
  int64_t batch_stride = 0;
};
struct Description {
  int32_t transposed[2] = {0, 0};
  int32_t epilogue = 1;  // 2: ReLU, 4: a bias, 32: tanh-GELU
  const void* bias = nullptr;
};

}  // namespace

double Load(const void* base, int64_t at, int type) {
  switch (type) {
    case 1: return static_cast<const double*>(base)[at];
    case 0: return static_cast<const float*>(base)[at];
    case 14: {
      const uint32_t bits = uint32_t{static_cast<const uint16_t*>(base)[at]} << 16;
      float value;
      std::memcpy(&value, &bits, 4);
      return value;
    }
    default: return static_cast<double>(static_cast<const _Float16*>(base)[at]);
  }
}
void Store(void* base, int64_t at, int type, double value) {
  if (type == 1) {
    static_cast<double*>(base)[at] = value;
  } else if (type == 0) {
    static_cast<float*>(base)[at] = static_cast<float>(value);
  } else if (type == 14) {
    const float narrow = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    static_cast<uint16_t*>(base)[at] =
        static_cast<uint16_t>(value != value ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  } else {
    static_cast<_Float16*>(base)[at] = static_cast<_Float16>(value);
  }
}

namespace {

double Element(const void* base, const Layout& l, bool transposed, int32_t batch, uint64_t row, uint64_t column) {
  if (transposed) std::swap(row, column);
  return Load(base, batch * l.batch_stride + static_cast<int64_t>(column) * l.stride + static_cast<int64_t>(row),
              l.type);
}

}  // namespace

extern "C" {

// --- NVRTC ---
int nvrtcVersion(int* major, int* minor) { return *major = 0, *minor = 1, 0; }
int nvrtcCreateProgram(void** program, const char* source, const char*, int, const char* const*, const char* const*) {
  *program = new Program{source, "", ""};
  return 0;
}
int nvrtcDestroyProgram(void** program) { return delete static_cast<Program*>(*program), 0; }
int nvrtcCompileProgram(void* program, int, const char* const*) {
  return CompileProgram(*static_cast<Program*>(program));
}
int nvrtcGetCUBINSize(void* program, size_t* size) { return *size = static_cast<Program*>(program)->code.size(), 0; }
int nvrtcGetCUBIN(void* program, char* code) {
  const std::string& bytes = static_cast<Program*>(program)->code;
  return std::memcpy(code, bytes.data(), bytes.size()), 0;
}
int nvrtcGetProgramLogSize(void* program, size_t* size) {
  return *size = static_cast<Program*>(program)->log.size() + 1, 0;
}
int nvrtcGetProgramLog(void* program, char* log) {
  const std::string& text = static_cast<Program*>(program)->log;
  return std::memcpy(log, text.c_str(), text.size() + 1), 0;
}

// --- The driver ---

}  // extern "C"

namespace {

// Memory at multiples of 256 between two pages that nobody may touch: what is written past its end, but for what such a
// multiple leaves, ends the program.
class GuardedMemory {
 public:
  static char* Make(size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), kept = (bytes + 255) / 256 * 256;
    const size_t usable = (kept + page - 1) / page * page, mapped = usable + 2 * page;
    void* pages = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return nullptr;
    char* begin = static_cast<char*>(pages);
    if (mprotect(begin + page, usable, PROT_READ | PROT_WRITE) != 0) return munmap(pages, mapped), nullptr;
    char* data = begin + page + usable - kept;
    std::lock_guard<std::mutex> lock(mutex_);
    return All()[data] = {pages, mapped}, data;
  }
  static void Free(char* data) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = All().find(data);
    if (found == All().end()) return;
    munmap(found->second.first, found->second.second);
    All().erase(found);
  }

 private:
  static std::map<char*, std::pair<void*, size_t>>& All() {
    static auto* all = new std::map<char*, std::pair<void*, size_t>>;
    return *all;
  }
  static inline std::mutex mutex_;
};

}  // namespace

extern "C" {
int cuInit(unsigned) { return 0; }
int cuDeviceGet(int* device, int) { return *device = 0, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGetName(char* name, int capacity, int) {
  std::strncpy(name, "emulated GPU", static_cast<size_t>(capacity));
  return 0;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int) { return std::memset(uuid, 0x11, 16), 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) { return *value = attribute == 75 ? 9 : 0, 0; }
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &g_mutex, 0; }
int cuCtxGetCurrent(void** context) { return *context = &g_mutex, 0; }
int cuCtxGetDevice(int* device) { return *device = 0, 0; }
int cuCtxPushCurrent_v2(void*) { return 0; }
int cuCtxPopCurrent_v2(void**) { return 0; }
int cuMemAlloc_v2(uint64_t* memory, size_t bytes) {
  char* made = GuardedMemory::Make(bytes);
  if (made == nullptr) return 2;
  std::memset(made, 0x7b, bytes);
  return *memory = reinterpret_cast<uint64_t>(made), 0;
}
int cuMemFree_v2(uint64_t memory) { return GuardedMemory::Free(reinterpret_cast<char*>(memory)), 0; }
int cuMemHostAlloc(void** memory, size_t bytes, unsigned) { return *memory = std::malloc(bytes), 0; }
int cuMemFreeHost(void* memory) { return std::free(memory), 0; }
int cuMemcpy(uint64_t to, uint64_t from, size_t bytes) {
  return std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes), 0;
}
int cuModuleLoadData(void** module, const void* image) {
  char path[] = "/tmp/preheat-emulator-code-XXXXXX";
  const int file = mkstemp(path);
  const ssize_t size = static_cast<ssize_t>(ImageSize(image));
  const bool written = file >= 0 && write(file, image, static_cast<size_t>(size)) == size;
  if (file >= 0) close(file);
  *module = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  std::remove(path);
  return *module != nullptr ? 0 : 200;
}
int cuModuleUnload(void* module) { return dlclose(module), 0; }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  auto* kernel = new KernelFunction;  // as long as the process: modules are few
  *reinterpret_cast<void**>(&kernel->run) = dlsym(module, (std::string(name) + "__call").c_str());
  kernel->thread = static_cast<Thread**>(dlsym(module, "preheat_thread"));
  const auto* fibers = static_cast<const int*>(dlsym(module, "preheat_fibers"));
  kernel->fibers = fibers != nullptr && *fibers != 0;
  *function = kernel;
  return kernel->run != nullptr && kernel->thread != nullptr ? 0 : 500;
}
int cuFuncSetAttribute(void*, int, int) { return 0; }
}  // extern "C"

namespace {

// So that a tuner finds something to gain.
std::chrono::microseconds FirstProposalsDelay() {
  static const char* const text = std::getenv("PREHEAT_EMULATED_DELAY_US");
  return std::chrono::microseconds(text != nullptr ? std::atoi(text) : 0);
}

int LaunchNow(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
              unsigned shared_bytes, std::vector<long> arguments) {
  const int threads = static_cast<int>(bx * by * bz);
  if (threads == Setting("PREHEAT_EMULATED_REFUSED_THREADS")) return 701;
  if (threads == Setting("PREHEAT_EMULATED_SLOW_THREADS")) std::this_thread::sleep_for(FirstProposalsDelay());
  std::lock_guard<std::mutex> lock(g_mutex);
  const KernelFunction& kernel = *static_cast<KernelFunction*>(function);
  std::vector<char> dynamic(shared_bytes + 16, '\x7b');
  std::vector<long long> slots(size_t{bx} * by * bz);
  Thread thread = {{0, 0, 0},      {0, 0, 0},    {bx, by, bz}, {gx, gy, gz},
                   dynamic.data(), slots.data(), BlockBarrier, WarpBarrier};
  thread.dynamic += (16 - reinterpret_cast<uintptr_t>(thread.dynamic) % 16) % 16;
  *kernel.thread = &thread;
  g_kernel = kernel.run;
  g_arguments = arguments.data();
  for (thread.block.z = 0; thread.block.z < gz; ++thread.block.z) {
    for (thread.block.y = 0; thread.block.y < gy; ++thread.block.y) {
      for (thread.block.x = 0; thread.block.x < gx; ++thread.block.x) {
        if (!RunBlock(kernel, thread)) return 719;
      }
    }
  }
  return 0;
}

std::vector<long> Arguments(void** extra) {
  const long* begin = static_cast<long*>(extra[1]);
  return {begin, begin + *static_cast<size_t*>(extra[3]) / sizeof(long)};
}

std::function<int()> Work(const KernelNode& k) {
  return [k, arguments = Arguments(k.extra)] {
    return LaunchNow(k.function, k.grid[0], k.grid[1], k.grid[2], k.block[0], k.block[1], k.block[2], k.shared_bytes,
                     arguments);
  };
}

}  // namespace

namespace {

// Algorithms of cuBLASLt's are numbers here, all of which do the same.
constexpr int kProposals = 3;
struct Proposal {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves = 1;
  int reserved[4] = {};
};

}  // namespace

extern "C" {

int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared_bytes, void* stream, void**, void** extra) {
  return Do(stream, Work({function, {gx, gy, gz}, {bx, by, bz}, shared_bytes, nullptr, extra, nullptr, nullptr}));
}
int cuStreamCreate(void** stream, unsigned) { return *stream = new Stream, 0; }
int cuStreamDestroy_v2(void* stream) { return delete static_cast<Stream*>(stream), 0; }
int cuStreamBeginCapture_v2(void* stream, int) { return static_cast<Stream*>(stream)->capture = new Graph, 0; }
int cuStreamEndCapture(void* stream, void** graph) {
  *graph = static_cast<Stream*>(stream)->capture;
  return static_cast<Stream*>(stream)->capture = nullptr, 0;
}
int cuStreamIsCapturing(void* stream, int* status) {
  return *status = static_cast<Stream*>(stream)->capture != nullptr ? 1 : 0, 0;
}
int cuGraphCreate(void** graph, unsigned) { return *graph = new Graph, 0; }
int cuGraphDestroy(void* graph) {
  return delete static_cast<Graph*>(graph), 0;
}  // nodes stay: those of an exec live on
int cuGraphAddKernelNode_v2(void** node, void* graph, void* const* after, size_t num_after, const void* kernel) {
  auto* g = static_cast<Graph*>(graph);
  if (!Holds(*g, after, num_after)) return 1;
  g->nodes.push_back(new Node{Work(*static_cast<const KernelNode*>(kernel)), NodeList(after, num_after)});
  return *node = g->nodes.back(), 0;
}
int cuGraphAddChildGraphNode(void** node, void* graph, void* const* after, size_t num_after, void* child) {
  auto* g = static_cast<Graph*>(graph);
  if (!Holds(*g, after, num_after)) return 1;
  g->nodes.push_back(
      new Node{[copy = *static_cast<Graph*>(child)] { return RunGraph(copy); }, NodeList(after, num_after)});
  return *node = g->nodes.back(), 0;
}
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  return *exec = new Graph(*static_cast<Graph*>(graph)), 0;
}
int cuGraphExecDestroy(void* exec) { return delete static_cast<Graph*>(exec), 0; }
int cuGraphExecKernelNodeSetParams_v2(void*, void* node, const void* kernel) {
  return static_cast<Node*>(node)->run = Work(*static_cast<const KernelNode*>(kernel)), 0;
}
int cuGraphExecChildGraphNodeSetParams(void*, void* node, void* child) {
  static_cast<Node*>(node)->run = [copy = *static_cast<Graph*>(child)] { return RunGraph(copy); };
  return 0;
}
int cuGraphLaunch(void* exec, void* stream) {
  return Do(stream, [copy = *static_cast<Graph*>(exec)] { return RunGraph(copy); });
}
// What is enqueued is done at once: there is nothing that could wait for the function.
int cuLaunchHostFunc(void*, void (*function)(void*), void* data) { return std::thread(function, data).detach(), 0; }
int cuEventCreate(void** event, unsigned) { return *event = new std::chrono::steady_clock::time_point, 0; }
int cuEventRecord(void* event, void*) {
  return *static_cast<std::chrono::steady_clock::time_point*>(event) = std::chrono::steady_clock::now(), 0;
}
int cuEventSynchronize(void*) { return 0; }
int cuEventElapsedTime(float* milliseconds, void* first, void* second) {
  using Time = std::chrono::steady_clock::time_point;
  *milliseconds =
      std::chrono::duration<float, std::milli>(*static_cast<Time*>(second) - *static_cast<Time*>(first)).count();
  return 0;
}
int cuEventDestroy_v2(void* event) { return delete static_cast<std::chrono::steady_clock::time_point*>(event), 0; }
int cuStreamSynchronize(void*) { return 0; }
int cuGetErrorName(int, const char** name) { return *name = "emulated error", 0; }
int cuGetErrorString(int result, const char** words) {
  return *words = result == 719 ? "threads of a block wait at different barriers" : "", 0;
}

// --- cuBLASLt ---
int cublasLtCreate(void** handle) { return *handle = &g_mutex, 0; }
int cublasLtMatmulDescCreate(void** desc, int, int) { return *desc = new Description, 0; }
int cublasLtMatmulDescDestroy(void* desc) { return delete static_cast<Description*>(desc), 0; }
int cublasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, size_t bytes) {
  auto* d = static_cast<Description*>(desc);
  void* const to = attribute == 7   ? &d->epilogue
                   : attribute == 8 ? static_cast<void*>(&d->bias)
                                    : &d->transposed[attribute - 3];
  return std::memcpy(to, value, bytes), 0;
}
int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns, int64_t stride) {
  if (stride < static_cast<int64_t>(rows)) return 7;
  return *layout = new Layout{type, rows, columns, stride}, 0;
}
int cublasLtMatrixLayoutDestroy(void* layout) { return delete static_cast<Layout*>(layout), 0; }
int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, size_t bytes) {
  auto* l = static_cast<Layout*>(layout);
  return std::memcpy(attribute == 5 ? static_cast<void*>(&l->batch) : &l->batch_stride, value, bytes), 0;
}
int cublasLtMatmulPreferenceCreate(void** preference) { return *preference = &g_mutex, 0; }
int cublasLtMatmulPreferenceDestroy(void*) { return 0; }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }
size_t cublasLtGetVersion() { return 130000; }
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int wanted, void* proposals,
                                   int* found) {
  *found = std::min(wanted, kProposals);
  for (int i = 0; i < *found; ++i)
    static_cast<Proposal*>(proposals)[i] = Proposal{{static_cast<uint64_t>(i) + 1}, 0, 0};
  return 0;
}
int cublasLtMatmulAlgoCheck(void*, void*, void*, void*, void*, void*, const void* algorithm, void* checked) {
  const uint64_t number = *static_cast<const uint64_t*>(algorithm);
  *static_cast<Proposal*>(checked) = Proposal{{number}, 0, 0};
  return number >= 1 && number <= kProposals ? 0 : 15;
}
}  // extern "C"

namespace {

double Activated(int32_t epilogue, double x) {
  if ((epilogue & 2) != 0) return x < 0 ? 0 : x;
  if ((epilogue & 32) != 0) return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  return x;
}

// `c`: null where beta is 0.
int MultiplyNow(const Description& description, const void* a, void* a_layout, const void* b, void* b_layout,
                const void* c, void* c_layout, void* d, void* d_layout) {
  const Layout &la = *static_cast<Layout*>(a_layout), &lb = *static_cast<Layout*>(b_layout),
               &ld = *static_cast<Layout*>(d_layout);
  const bool ta = description.transposed[0] != 0, tb = description.transposed[1] != 0;
  const uint64_t inner = ta ? la.rows : la.columns;
  if ((ta ? la.columns : la.rows) != ld.rows || (tb ? lb.rows : lb.columns) != ld.columns ||
      (tb ? lb.columns : lb.rows) != inner)
    return 7;
  for (int32_t batch = 0; batch < ld.batch; ++batch) {
    for (uint64_t column = 0; column < ld.columns; ++column) {
      for (uint64_t row = 0; row < ld.rows; ++row) {
        double sum = 0;
        for (uint64_t k = 0; k < inner; ++k)
          sum += Element(a, la, ta, batch, row, k) * Element(b, lb, tb, batch, k, column);
        if (c != nullptr) sum += Element(c, *static_cast<Layout*>(c_layout), false, batch, row, column);
        if ((description.epilogue & 4) != 0) sum += Load(description.bias, static_cast<int64_t>(row), ld.type);
        Store(d, batch * ld.batch_stride + static_cast<int64_t>(column) * ld.stride + static_cast<int64_t>(row),
              ld.type, Activated(description.epilogue, sum));
      }
    }
  }
  return 0;
}

}  // namespace

extern "C" int cublasLtMatmul(void*, void* desc, const void*, const void* a, void* a_layout, const void* b,
                              void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                              const void* algorithm, void*, size_t, void* stream) {
  const Description now = *static_cast<Description*>(desc);  // the next call may have another bias
  const uint64_t number = *static_cast<const uint64_t*>(algorithm);
  if (number < 1 || number > kProposals) return 15;
  const bool adds = Load(beta, 0, static_cast<Layout*>(d_layout)->type == 1 ? 1 : 0) != 0;
  if (!adds) c = nullptr;
  return Do(stream, [=] {
    if (number == 1) std::this_thread::sleep_for(FirstProposalsDelay());
    return MultiplyNow(now, a, a_layout, b, b_layout, c, c_layout, d, d_layout);
  });
}

// --- NVIDIA's management library ---

// A GPU that nobody uses, or what the file PREHEAT_EMULATED_USE says: "MiB percent".
std::pair<uint64_t, unsigned> EmulatedUse() {
  uint64_t mebibytes = 0;
  unsigned percent = 0;
  if (const char* file = std::getenv("PREHEAT_EMULATED_USE")) std::ifstream(file) >> mebibytes >> percent;
  return {mebibytes << 20, percent};
}
extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByUUID(const char*, void** device) { return *device = &g_mutex, 0; }
int nvmlDeviceGetMemoryInfo_v2(void*, void* memory) {  // version, total, reserved, free, used
  return static_cast<uint64_t*>(memory)[4] = EmulatedUse().first, 0;
}
int nvmlDeviceGetUtilizationRates(void*, void* rates) {
  return *static_cast<unsigned*>(rates) = EmulatedUse().second, 0;
}
}
