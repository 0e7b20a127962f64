// Compile and verify tasks with the real compiler, runtime and reference, without a server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "kernels/runtime/preheat_runtime.h"
#include "server/worker/compile_task.h"
#include "server/worker/verify_task.h"

namespace preheat::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;

v1::Value F32(std::vector<std::string> sizes, std::vector<std::string> strides) {
  v1::Value value;
  v1::TensorType& type = *value.mutable_tensor();
  type.set_dtype(v1::DTYPE_F32);
  *type.mutable_sizes() = {sizes.begin(), sizes.end()};
  *type.mutable_strides() = {strides.begin(), strides.end()};
  type.set_device_type("cpu");
  type.set_alignment(16);
  return value;
}

// y = op(x), x: f32[d0, 8] with d0 in [1, 64].
v1::Program UnaryProgram(const std::string& op) {
  v1::Program program;
  program.set_format(1);
  v1::Symbol& symbol = *program.add_symbols();
  symbol.set_name("d0");
  symbol.set_min(1);
  symbol.set_max(64);
  *program.add_values() = F32({"d0", "8"}, {"8", "1"});
  *program.add_values() = F32({"d0", "8"}, {"8", "1"});
  program.add_inputs()->set_value(0);
  program.add_outputs()->set_value(1);
  v1::Node& node = *program.add_nodes();
  node.set_op(op);
  node.add_arguments()->set_name("self");
  node.mutable_arguments(0)->set_tensor(0);
  node.add_results(1);
  return program;
}

class TaskTest : public testing::Test {
 protected:
  TaskTest() {
    context_.toolchain.set_compiler_epoch(kCompilerEpoch);
    context_.progress = [](absl::string_view, double, absl::string_view) {};
    context_.announce_key = [this](const std::string& key, const std::map<std::string, std::string>& fields) {
      announced_ = key;
      fields_ = fields;
      return go_on_;
    };
    context_.lookup_kernels = [](const std::vector<std::string>&) { return std::map<std::string, std::string>(); };
    context_.publish_kernels = [](const std::map<std::string, std::string>&) {};
  }

  static v1::CompileTask TaskOf(const v1::Program& program) {
    v1::CompileTask task;
    *task.mutable_request()->mutable_source()->mutable_program() = program;
    task.mutable_request()->set_target(preheat_host_target());
    task.mutable_request()->set_extern_allowed(true);
    return task;
  }
  v1::TaskDone Compile(const v1::Program& program) {
    auto done = RunCompileTask(TaskOf(program), context_);
    EXPECT_TRUE(done.ok()) << done.status();
    return done.value_or(v1::TaskDone());
  }
  static v1::VerifyTask VerifyTaskOf(const v1::TaskDone& done) {
    v1::VerifyTask task;
    *task.mutable_manifest() = done.manifest();
    *task.mutable_blobs() = done.blobs();
    return task;
  }
  v1::Evidence Verify(const v1::VerifyTask& task) {
    auto done = RunVerifyTask(task, context_);
    EXPECT_TRUE(done.ok()) << done.status();
    return done.ok() ? done->evidence() : v1::Evidence();
  }

  TaskContext context_;
  bool go_on_ = true;
  std::string announced_;
  std::map<std::string, std::string> fields_;
};

TEST_F(TaskTest, CompilesWhatItThenVerifies) {
  v1::TaskDone done = Compile(UnaryProgram("aten.gelu.default"));
  const v1::Manifest& manifest = done.manifest();
  EXPECT_EQ(manifest.key(), announced_);
  EXPECT_TRUE(IsDigest(announced_));
  EXPECT_THAT(fields_, testing::Contains(Pair("inputs", "f32[d0, 8]")));
  EXPECT_EQ(manifest.symbols(0).name(), "d0");
  EXPECT_GT(manifest.code_size(), 0);
  for (const auto& [digest, bytes] : done.blobs()) EXPECT_EQ(Digest(bytes), digest);
  v1::FusionReport report;
  ASSERT_TRUE(report.ParseFromString(done.blobs().at(manifest.report().digest())));
  EXPECT_EQ(report.kernels_before(), 1);
  EXPECT_EQ(report.kernels_after(), 1);
  v1::VerifyTask verify = VerifyTaskOf(done);
  (*verify.mutable_request()->mutable_dims())["d0"] = 5;
  v1::Evidence evidence = Verify(verify);
#if PREHEAT_WITH_TORCH
  EXPECT_EQ(evidence.state(), v1::Evidence::OK) << evidence.reason();
  EXPECT_LT(evidence.rel_error(), 1e-6);
  EXPECT_EQ(evidence.outputs(0).shape(0), 5);
#else
  EXPECT_EQ(evidence.state(), v1::Evidence::NOT_POSSIBLE);
#endif
}

#if PREHEAT_WITH_TORCH
TEST_F(TaskTest, FindsAnotherProgramsCodeWrong) {
  v1::TaskDone done = Compile(UnaryProgram("aten.gelu.default"));
  v1::VerifyTask task = VerifyTaskOf(Compile(UnaryProgram("aten.sigmoid.default")));
  *task.mutable_manifest()->mutable_program() = done.manifest().program();
  (*task.mutable_blobs())[done.manifest().program().digest()] = done.blobs().at(done.manifest().program().digest());
  v1::Evidence evidence = Verify(task);
  EXPECT_EQ(evidence.state(), v1::Evidence::FAILED);
  EXPECT_THAT(evidence.reason(), HasSubstr("output 0"));
}

TEST_F(TaskTest, TakesInputsOfTheRequest) {
  v1::VerifyTask task = VerifyTaskOf(Compile(UnaryProgram("aten.relu.default")));
  (*task.mutable_request()->mutable_dims())["d0"] = 1;
  (*task.mutable_request()->mutable_inputs())[0] = std::string(32, '\0');
  EXPECT_EQ(Verify(task).state(), v1::Evidence::OK);
  (*task.mutable_request()->mutable_inputs())[0] = std::string(31, '\0');
  EXPECT_EQ(GetError(RunVerifyTask(task, context_).status()).kind, "shape_mismatch");
}
#endif

TEST_F(TaskTest, SaysWhatCannotBeCompared) {
  v1::Evidence evidence = Verify(VerifyTaskOf(Compile(UnaryProgram("aten.bernoulli.default"))));
  EXPECT_EQ(evidence.state(), v1::Evidence::NOT_POSSIBLE);
  EXPECT_THAT(evidence.reason(), HasSubstr("aten.bernoulli"));
}

TEST_F(TaskTest, StopsWhenTheKeyIsKnown) {
  go_on_ = false;
  v1::TaskDone done = Compile(UnaryProgram("aten.relu.default"));
  EXPECT_FALSE(done.has_manifest());
  EXPECT_TRUE(done.blobs().empty());
  EXPECT_EQ(done.inputs(0).type().sizes(0), "d0");
}

TEST_F(TaskTest, TheKeyIsOfTheProgramAlone) {
  go_on_ = false;
  v1::Program program = UnaryProgram("aten.relu.default");
  Compile(program);
  std::string key = announced_;
  program.mutable_debug_info()->add_value_names("x");
  program.mutable_debug_info()->add_value_names("y");
  program.mutable_debug_info()->add_input_names("activations");
  v1::TaskDone named = Compile(program);
  EXPECT_EQ(announced_, key);
  EXPECT_EQ(named.inputs(0).name(), "activations");
  v1::CompileTask bound = TaskOf(program);
  (*bound.mutable_request()->mutable_dims())["d0"] = 8;
  ASSERT_TRUE(RunCompileTask(bound, context_).ok());
  EXPECT_NE(announced_, key);
  EXPECT_EQ(fields_.at("inputs"), "f32[8, 8]");
}

TEST_F(TaskTest, PassesOnWhatIsWrongWithARequest) {
  v1::CompileTask task = TaskOf(UnaryProgram("aten.relu.default"));
  (*task.mutable_request()->mutable_dims())["batch"] = 8;
  EXPECT_EQ(GetError(RunCompileTask(task, context_).status()).kind, "unknown_dimension");
  task = TaskOf(UnaryProgram("aten.relu.default"));
  task.mutable_request()->set_target("cpu:pentium");
  EXPECT_EQ(GetError(RunCompileTask(task, context_).status()).kind, "unsupported_target");
  task.mutable_request()->mutable_source()->set_hlo_module("module");
  EXPECT_EQ(GetError(RunCompileTask(task, context_).status()).kind, "unsupported_source");
#if PREHEAT_WITH_TORCH
  task.mutable_request()->mutable_source()->mutable_torch_script()->set_archive("no archive");
  EXPECT_EQ(GetError(RunCompileTask(task, context_).status()).kind, "malformed_torch_script");
#endif
  task.mutable_request()->clear_source();
  EXPECT_EQ(GetError(RunCompileTask(task, context_).status()).kind, "invalid_request");
}

TEST_F(TaskTest, EndsWhenCancelled) {
  std::atomic<bool> cancelled = true;
  context_.cancelled = &cancelled;
  auto done = RunCompileTask(TaskOf(UnaryProgram("aten.relu.default")), context_);
  EXPECT_EQ(done.status().code(), absl::StatusCode::kCancelled);
}

TEST_F(TaskTest, NoticesBlobsThatChangedOnTheWay) {
  v1::VerifyTask task = VerifyTaskOf(Compile(UnaryProgram("aten.relu.default")));
  (*task.mutable_blobs())[task.manifest().plan().digest()] += "x";
#if PREHEAT_WITH_TORCH
  EXPECT_EQ(GetError(RunVerifyTask(task, context_).status()).kind, "corrupt_artifact");
#endif
  task.mutable_blobs()->erase(task.manifest().program().digest());
  EXPECT_EQ(GetError(RunVerifyTask(task, context_).status()).kind, "corrupt_artifact");
}

}  // namespace
}  // namespace preheat::worker
