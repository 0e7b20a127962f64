#include "server/worker/worker.h"

#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "autotune/device_lock.h"
#include "compiler/artifact/plan_version.h"
#include "compiler/compile.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "kernels/runtime/preheat_runtime.h"
#include "proto/preheat/v1/pool.grpc.pb.h"
#include "server/rpc/error_proto.h"
#include "server/worker/compile_task.h"
#include "server/worker/task_context.h"
#include "server/worker/tune_task.h"
#include "server/worker/verify_task.h"
#include "server/worker/worker_gpu.h"

namespace preheat::worker {
namespace {

constexpr std::chrono::seconds kHeartbeatEvery{2};
constexpr std::chrono::milliseconds kProgressEvery{100};
constexpr std::chrono::seconds kKernelCallDeadline{20};
constexpr std::chrono::seconds kIdleOnGpu{5};  // then its memory is given back
constexpr int kBackgroundNiceness = 19;
constexpr int kLargestMessage = 256 << 20;

using Stream = grpc::ClientReaderWriter<v1::WorkerMessage, v1::ServerMessage>;

int64_t ResidentBytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Programs for CUDA will come, as a rule.
bool HasGpu() {
  std::error_code failed;
  return std::filesystem::exists("/dev/nvidiactl", failed) ||
         std::filesystem::exists("/proc/driver/nvidia/version", failed);
}

absl::Status LostContext() {
  return MakeError(absl::StatusCode::kUnavailable, {.kind = "gpu_busy",
                                                    .message = "the last artifact has broken the worker's GPU context",
                                                    .where = "",
                                                    .fix = "the worker begins anew; try again"});
}

// The same in its containers.
std::string MachineId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

absl::StatusOr<v1::Registration> MakeRegistration(const WorkerOptions& options) {
  v1::Registration registration;
  registration.set_worker_id(options.id);
  registration.set_device(options.device);
  const Gpu* gpu = WorkersGpu();
  registration.set_target(gpu != nullptr ? gpu->target : preheat_host_target());
  if (gpu == nullptr) registration.add_compile_targets("cpu:*");
  registration.set_pid(getpid());
  registration.set_machine(MachineId());
  v1::Toolchain& toolchain = *registration.mutable_toolchain();
  ASSIGN_OR_RETURN(*toolchain.mutable_host_compiler(), HostCompilerVersion());
  // No GPU is needed to compile for one, only NVRTC.
  if (absl::StatusOr<std::string> nvrtc = DeviceCompilerVersion(); nvrtc.ok()) {
    if (gpu == nullptr) registration.add_compile_targets("cuda:*");
    toolchain.set_device_compiler(*nvrtc);
  }
  toolchain.set_compiler_epoch(kCompilerEpoch);
  toolchain.set_plan_version(plan::kPlanVersion);
  return registration;
}

// One task that is being done. Its answers to the server's messages come from the reading thread.
class RunningTask {
 public:
  std::string id;
  std::atomic<bool> cancelled = false;

  void Answer(bool compile) {
    std::lock_guard lock(mutex_);
    answer_ = compile;
    changed_.notify_all();
  }
  bool WaitForAnswer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answer_.has_value(); });
    return *answer_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<bool> answer_;  // guarded by mutex_
};

class Worker {
 public:
  explicit Worker(const WorkerOptions& options) : options_(options) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kLargestMessage);
    arguments.SetMaxSendMessageSize(kLargestMessage);
    stub_ = v1::Pool::NewStub(grpc::CreateCustomChannel(options.server, grpc::InsecureChannelCredentials(), arguments));
  }

  absl::Status Run() {
    ASSIGN_OR_RETURN(v1::Registration registration, MakeRegistration(options_));
    toolchain_ = registration.toolchain();
    if (!toolchain_.device_compiler().empty() && HasGpu() && WorkersGpu() == nullptr) WarmDeviceCompiler();
    context_.AddMetadata("x-preheat-pool-token", options_.pool_token);
    stream_ = stub_->Work(&context_);
    v1::WorkerMessage hello;
    *hello.mutable_registration() = std::move(registration);
    Send(std::move(hello));
    std::thread heart([this] { Beat(); });
    v1::ServerMessage message;
    while (stream_->Read(&message) && Handle(std::move(message))) {
    }
    StopHeart();
    heart.join();
    if (drained_) stream_->WritesDone();
    if (task_thread_.joinable() && drained_) task_thread_.join();
    return drained_ ? absl::OkStatus() : server::FromGrpc(stream_->Finish());
  }

 private:
  // False: the server wants no more of us.
  bool Handle(v1::ServerMessage message) {
    switch (message.kind_case()) {
      case v1::ServerMessage::kTask: StartTask(std::move(*message.mutable_task())); break;
      case v1::ServerMessage::kCancel:
        if (task_ && task_->id == message.cancel().task_id()) {
          task_->cancelled = true;
          task_->Answer(false);
        }
        break;
      case v1::ServerMessage::kKeyAnswer:
        if (task_ && task_->id == message.key_answer().task_id()) task_->Answer(message.key_answer().compile());
        break;
      case v1::ServerMessage::kDrain: drained_ = true; return false;
      case v1::ServerMessage::KIND_NOT_SET: break;  // of a newer server
    }
    return true;
  }

  void StartTask(v1::Task task) {
    if (task_thread_.joinable()) task_thread_.join();  // its last message is out already
    idle_since_ = kBusy;
    task_ = std::make_shared<RunningTask>();
    task_->id = task.id();
    task_thread_ = std::thread([this, running = task_, task = std::move(task)] { DoTask(*running, task); });
  }

  static absl::StatusOr<v1::TaskDone> Run(const v1::Task& task, const TaskContext& context) {
    if (task.has_compile()) return RunCompileTask(task.compile(), context);
    if (!GpuIsWell()) return LostContext();  // it has come before the server knew
    if (task.has_verify()) return RunVerifyTask(task.verify(), context);
    if (task.has_tune()) return RunTuneTask(task.tune(), context);
    return absl::UnimplementedError("this worker does not know such a task");
  }

  void DoTask(RunningTask& running, const v1::Task& task) {
    // Evidence is worth less than the client's first runs, which start about now: give way. Linux counts niceness by
    // thread, and this one, with those that it starts, ends with the task.
    const bool background = task.has_tune() || task.verify().quiet_until_unix_ms() != 0;
    if (background) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kBackgroundNiceness);
    std::optional<autotune::DeviceLock> lock;  // who measures stands still meanwhile
    if (!task.has_tune()) lock.emplace("cpu", autotune::DeviceLock::Kind::kShared, &running.cancelled);
    TaskContext context = ContextOf(running);
    context.memory_bytes = task.memory_bytes();
    absl::StatusOr<v1::TaskDone> done = Run(task, context);
    if (running.cancelled) done = absl::CancelledError("cancelled by the server");
    v1::WorkerMessage message;
    if (done.ok()) {
      *message.mutable_done() = *std::move(done);
      message.mutable_done()->set_task_id(task.id());
    } else {
      spdlog::info("task {} failed: {}", task.id(), std::string(done.status().message()));
      message.mutable_failed()->set_task_id(task.id());
      *message.mutable_failed()->mutable_error() = server::ToProto(done.status());
    }
    Send(std::move(message));
    idle_since_ = Now();
    if (!GpuIsWell()) Leave();
  }

  static int64_t Now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

  void Leave() {
    v1::WorkerMessage message;
    message.mutable_leaving();
    Send(std::move(message));
  }

  bool HasHeldGpuForNothing() const {
    const std::chrono::steady_clock::duration idle(Now() - idle_since_);
    return HoldsGpu() && idle_since_ != kBusy && idle > kIdleOnGpu;
  }

  TaskContext ContextOf(RunningTask& running) {
    TaskContext context;
    context.toolchain = toolchain_;
    context.cancelled = &running.cancelled;
    context.progress = [this, &running, told = std::make_shared<Told>()](absl::string_view stage, double fraction,
                                                                         absl::string_view detail) {
      if (told->IsNews(stage)) SendProgress(running.id, stage, fraction, detail);
    };
    context.announce_key = [this, &running](const std::string& key, const std::map<std::string, std::string>& fields) {
      v1::WorkerMessage message;
      message.mutable_key_known()->set_task_id(running.id);
      message.mutable_key_known()->set_key(key);
      message.mutable_key_known()->mutable_key_fields()->insert(fields.begin(), fields.end());
      Send(std::move(message));
      return running.WaitForAnswer();
    };
    context.lookup_kernels = [this](const std::vector<std::string>& keys) { return LookupKernels(keys); };
    context.lookup_tuning = [this](const std::vector<std::string>& keys) { return LookupTuning(keys); };
    context.publish_kernels = [this](const std::map<std::string, std::string>& objects) { PublishKernels(objects); };
    return context;
  }

  // Lets through each new stage, and otherwise a message now and then.
  struct Told {
    std::mutex mutex;
    std::string stage;
    std::chrono::steady_clock::time_point at;
    bool IsNews(absl::string_view now_stage) {
      std::lock_guard lock(mutex);
      auto now = std::chrono::steady_clock::now();
      if (stage == now_stage && now - at < kProgressEvery) return false;
      stage = std::string(now_stage);
      at = now;
      return true;
    }
  };

  void SendProgress(const std::string& id, absl::string_view stage, double fraction, absl::string_view detail) {
    v1::WorkerMessage message;
    v1::TaskProgress& progress = *message.mutable_progress();
    progress.set_task_id(id);
    progress.mutable_progress()->set_stage(std::string(stage));
    progress.mutable_progress()->set_fraction(fraction);
    progress.mutable_progress()->set_detail(std::string(detail));
    Send(std::move(message));
  }

  // Kernels made before only save time: without an answer all are compiled.
  std::map<std::string, std::string> LookupKernels(const std::vector<std::string>& keys) {
    v1::LookupKernelsRequest request;
    *request.mutable_kernel_keys() = {keys.begin(), keys.end()};
    v1::LookupKernelsReply reply;
    grpc::ClientContext context;
    Prepare(context);
    grpc::Status status = stub_->LookupKernels(&context, request, &reply);
    if (!status.ok()) spdlog::warn("no kernels from the server: {}", status.error_message());
    return {reply.objects().begin(), reply.objects().end()};
  }

  std::map<std::string, std::string> LookupTuning(const std::vector<std::string>& keys) {
    v1::LookupTuningRequest request;
    *request.mutable_tuning_keys() = {keys.begin(), keys.end()};
    v1::LookupTuningReply reply;
    grpc::ClientContext context;
    Prepare(context);
    grpc::Status status = stub_->LookupTuning(&context, request, &reply);
    if (!status.ok()) spdlog::warn("no tuning records from the server: {}", status.error_message());
    return {reply.records().begin(), reply.records().end()};
  }

  void PublishKernels(const std::map<std::string, std::string>& objects) {
    v1::PublishKernelsRequest request;
    for (const auto& [key, bytes] : objects) (*request.mutable_objects())[key] = bytes;
    v1::PublishKernelsReply reply;
    grpc::ClientContext context;
    Prepare(context);
    grpc::Status status = stub_->PublishKernels(&context, request, &reply);
    if (!status.ok()) spdlog::warn("kernels not kept by the server: {}", status.error_message());
  }

  void Prepare(grpc::ClientContext& context) const {
    context.AddMetadata("x-preheat-pool-token", options_.pool_token);
    context.set_deadline(std::chrono::system_clock::now() + kKernelCallDeadline);
  }

  void Send(v1::WorkerMessage message) {
    std::lock_guard lock(send_mutex_);
    stream_->Write(message);  // a failure shows as the end of reading
  }

  void Beat() {
    std::unique_lock lock(heart_mutex_);
    while (!heart_stopped_.wait_for(lock, kHeartbeatEvery, [&] { return stop_heart_; })) {
      v1::WorkerMessage message;
      message.mutable_heartbeat()->set_resident_bytes(ResidentBytes());
      Send(std::move(message));
      if (HasHeldGpuForNothing()) Leave();
    }
  }

  void StopHeart() {
    std::lock_guard lock(heart_mutex_);
    stop_heart_ = true;
    heart_stopped_.notify_all();
  }

  const WorkerOptions options_;
  std::unique_ptr<v1::Pool::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  v1::Toolchain toolchain_;
  std::mutex send_mutex_;  // one writer at a time, as gRPC asks
  std::mutex heart_mutex_;
  std::condition_variable heart_stopped_;
  bool stop_heart_ = false;            // guarded by heart_mutex_
  std::shared_ptr<RunningTask> task_;  // of the reading thread
  std::thread task_thread_;
  static constexpr int64_t kBusy = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> idle_since_{0};  // of the steady clock
  bool drained_ = false;
};

}  // namespace

absl::Status RunWorker(const WorkerOptions& options) {
  // Not destroyed: a task that still runs refers to it, and the process is about to end.
  auto* worker = new Worker(options);
  return worker->Run();
}

}  // namespace preheat::worker
