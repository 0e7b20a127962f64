// A worker for tests of the server: a real process on the real stream, which does what the program tells it to. A
// program is an "HLO module" of words:
//   key=NAME      the key is the digest of NAME; programs with one NAME have one key
//   sleep=MS      before the key is told        work=MS   after it, unless cancelled
//   crash         ends after the key was told   crash-once=FILE   the same, unless FILE is there; leaves it
//   hang          never ends, but lives         stop      stands still, heartbeats too
//   fail=KIND     fails with INVALID_ARGUMENT of that kind
//   extern        the artifact has an extern call
//   wrong         verification finds it wrong
//   size=KB       the code is that long, and hard to compress
// Verification finds everything else right.

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "absl/strings/str_split.h"
#include "compiler/support/digest.h"
#include "proto/preheat/v1/pool.grpc.pb.h"

namespace preheat {
namespace {

using Words = std::map<std::string, std::string>;

Words Parse(const std::string& text) {
  Words words;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    std::pair<std::string, std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    words[parts.first] = parts.second;
  }
  return words;
}

class FakeWorker {
 public:
  int Run(const std::string& server, const std::string& id) {
    auto stub = v1::Pool::NewStub(grpc::CreateChannel(server, grpc::InsecureChannelCredentials()));
    const char* token = std::getenv("PREHEAT_POOL_TOKEN");
    context_.AddMetadata("x-preheat-pool-token", token == nullptr ? "" : token);
    stream_ = stub->Work(&context_);
    v1::WorkerMessage hello;
    hello.mutable_registration()->set_worker_id(id);
    hello.mutable_registration()->set_device("cpu:0");
    hello.mutable_registration()->set_target("cpu:x86-64-v3");
    hello.mutable_registration()->add_compile_targets("cpu:*");
    hello.mutable_registration()->mutable_toolchain()->set_plan_version(1);
    Send(hello);
    std::thread([this] { Beat(); }).detach();
    v1::ServerMessage message;
    while (stream_->Read(&message)) {
      if (message.has_drain()) _exit(0);
      if (message.has_task()) Start(message.task());
      if (message.has_cancel()) Answer(false);
      if (message.has_key_answer()) Answer(message.key_answer().compile());
    }
    return 1;
  }

 private:
  void Start(const v1::Task& task) {
    {
      std::lock_guard lock(mutex_);
      answer_.reset();
      cancelled_ = false;
    }
    std::thread([this, task] { task.has_verify() ? Verify(task) : Compile(task); }).detach();
  }

  void Compile(const v1::Task& task) {
    Words words = Parse(task.compile().request().source().hlo_module());
    Sleep(words["sleep"]);
    if (words.count("fail")) return Fail(task.id(), "INVALID_ARGUMENT", words["fail"]);
    v1::WorkerMessage known;
    known.mutable_key_known()->set_task_id(task.id());
    known.mutable_key_known()->set_key(Digest(words["key"]));
    (*known.mutable_key_known()->mutable_key_fields())["ir"] = words["key"];
    Send(known);
    bool compile = WaitForAnswer();
    if (cancelled_) return Fail(task.id(), "CANCELLED", "cancelled");
    if (words.count("crash")) _exit(9);
    if (words.count("crash-once") && access(words["crash-once"].c_str(), F_OK) != 0) {
      std::ofstream(words["crash-once"]) << "crashed\n";
      _exit(9);
    }
    if (words.count("stop")) kill(getpid(), SIGSTOP);  // takes hold a moment later
    while (words.count("hang") || words.count("stop")) pause();
    Sleep(words["work"]);
    if (cancelled_) return Fail(task.id(), "CANCELLED", "cancelled");
    v1::WorkerMessage done = Done(task, words);
    if (!compile) done.mutable_done()->clear_manifest();
    Send(done);
  }

  v1::WorkerMessage Done(const v1::Task& task, Words& words) {
    v1::WorkerMessage message;
    v1::TaskDone& done = *message.mutable_done();
    done.set_task_id(task.id());
    done.add_inputs()->set_name("x");
    v1::Manifest& manifest = *done.mutable_manifest();
    manifest.set_key(Digest(words["key"]));
    manifest.set_target(task.compile().request().target());
    manifest.mutable_toolchain()->set_plan_version(1);
    manifest.mutable_seconds()->set_compile(2);
    *manifest.mutable_plan() = AddBlob(done, (words.count("wrong") ? "wrong plan of " : "plan of ") + words["key"]);
    *manifest.add_code() = AddBlob(done, Code(words));
    *manifest.mutable_program() = AddBlob(done, "program of " + words["key"]);
    v1::FusionReport report;
    report.set_kernels_before(3);
    report.set_kernels_after(1);
    if (words.count("extern")) report.add_extern_calls()->set_op("aten.sort.stable");
    *manifest.mutable_report() = AddBlob(done, report.SerializeAsString());
    return message;
  }

  static std::string Code(Words& words) {
    std::string code = "code of " + words["key"];
    std::mt19937_64 random(std::hash<std::string>()(code));
    for (size_t size = static_cast<size_t>(std::atoll(words["size"].c_str())) << 10; code.size() < size;) {
      const uint64_t bytes = random();
      code.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    }
    return code;
  }

  v1::BlobRef AddBlob(v1::TaskDone& done, const std::string& bytes) {
    v1::BlobRef ref;
    ref.set_digest(Digest(bytes));
    ref.set_size_bytes(static_cast<int64_t>(bytes.size()));
    (*done.mutable_blobs())[ref.digest()] = bytes;
    return ref;
  }

  void Verify(const v1::Task& task) {
    const std::string& plan = task.verify().blobs().at(task.verify().manifest().plan().digest());
    v1::WorkerMessage message;
    message.mutable_done()->set_task_id(task.id());
    v1::Evidence& evidence = *message.mutable_done()->mutable_evidence();
    evidence.set_state(plan.rfind("wrong", 0) == 0 ? v1::Evidence::FAILED : v1::Evidence::OK);
    evidence.set_rel_error(1e-7);
    Send(message);
  }

  void Fail(const std::string& task, const std::string& code, const std::string& kind) {
    v1::WorkerMessage message;
    message.mutable_failed()->set_task_id(task);
    message.mutable_failed()->mutable_error()->set_code(code);
    message.mutable_failed()->mutable_error()->set_kind(kind);
    message.mutable_failed()->mutable_error()->set_message("told to fail");
    Send(message);
  }

  void Answer(bool compile) {
    std::lock_guard lock(mutex_);
    if (!compile) cancelled_ = answer_.has_value();
    if (!answer_) answer_ = compile;
    changed_.notify_all();
  }
  bool WaitForAnswer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answer_.has_value(); });
    return *answer_;
  }
  // Until the time is over or the task cancelled.
  void Sleep(const std::string& ms) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(std::atoi(ms.c_str())), [&] { return cancelled_.load(); });
  }

  void Send(const v1::WorkerMessage& message) {
    std::lock_guard lock(send_mutex_);
    stream_->Write(message);
  }
  void Beat() {
    while (true) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      v1::WorkerMessage message;
      message.mutable_heartbeat()->set_resident_bytes(1);
      Send(message);
    }
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::ServerMessage>> stream_;
  std::mutex send_mutex_, mutex_;
  std::condition_variable changed_;
  std::optional<bool> answer_;  // guarded by mutex_
  std::atomic<bool> cancelled_ = false;
};

}  // namespace
}  // namespace preheat

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string server, id;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string(argv[i]) == "--server") server = argv[i + 1];
    if (std::string(argv[i]) == "--id") id = argv[i + 1];
  }
  _exit((new preheat::FakeWorker)->Run(server, id));
}
