#include "autotune/tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "autotune/loaded_artifact.h"
#include "autotune/search.h"
#include "compiler/draft.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/support/error.h"
#include "kernels/device/cuda_device.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat::autotune {
namespace {

constexpr char kProgram[] = R"(
%x = input user f32[64, 512]
%w = input user f32[512, 96]
%m = matmul(%x, %w)
%e = exp(%m)
%c = reduce_sum(%e) {dims = [0]}
%q = mul(%x, %x)
%r = reduce_sum(%q) {dims = [1]}
output %c
output %r)";

Canonical Program(const char* text = kProgram) {
  Canonical canonical;
  canonical.graph = *ir::ParseGraph(text);
  canonical.ir_text = ir::Print(canonical.graph);
  return canonical;
}

TuneOptions Options(int64_t rows = 64, int64_t inner = 512, int64_t columns = 96) {
  TuneOptions options;
  options.compile.target = preheat_host_target();
  options.machine = "test machine";
  options.budget = std::chrono::milliseconds(300);
  std::mt19937 random(3);
  for (std::vector<int64_t> sizes : {std::vector<int64_t>{rows, inner}, std::vector<int64_t>{inner, columns}}) {
    reference::HostTensor tensor = reference::MakeTensor(ir::DType::kF32, sizes);
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    for (float& value : values) value = std::uniform_real_distribution<float>(-0.1f, 0.1f)(random);
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    options.inputs.push_back(std::move(tensor));
  }
  return options;
}

class Search : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Targets, Search, ::testing::Values("", "cuda:sm_90"));  // empty: this CPU

TEST_P(Search, CandidatesAreDifferentKernelsAndFew) {
  Canonical program = Program();
  CompileOptions options = Options().compile;
  if (*GetParam() != 0) options.target = GetParam();
  auto base = MakeDraft(program, options);
  ASSERT_TRUE(base.ok()) << base.status();
  ASSERT_EQ(base->built.sites.size(), 3u);  // a product and two kernels
  auto found = FindCandidates(program, options, *base, {});
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 3u);
  for (const auto& [site, schedules] : *found) {
    EXPECT_GE(schedules.size(), 1u) << site;
    EXPECT_LE(schedules.size(), kMostCandidates - 1u) << site;
    std::set<std::string> variants;
    for (const codegen::Schedule& schedule : schedules) {
      CompileOptions turned = options;
      turned.schedules.at[site] = schedule;
      auto draft = MakeDraft(program, turned);
      ASSERT_TRUE(draft.ok()) << draft.status();
      for (size_t i = 0; i < draft->built.sites.size(); ++i) {
        const Site &now = draft->built.sites[i], &before = base->built.sites[i];
        EXPECT_EQ(now.name, before.name);
        const bool same = now.variant == before.variant && now.threads == before.threads;
        EXPECT_EQ(same, now.name != site) << codegen::ScheduleText(schedule);
        if (now.name == site) {
          const std::string variant = absl::StrCat(now.variant, " by ", now.threads);
          EXPECT_TRUE(variants.insert(variant).second) << codegen::ScheduleText(schedule);
        }
      }
    }
  }
  auto rest = FindCandidates(program, options, *base, {base->built.sites[0].name});
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(rest->count(base->built.sites[0].name), 0u);
}

TEST(Tune, EveryCandidateComputesTheSame) {
  Canonical program = Program();
  TuneOptions options = Options();
  auto base = MakeDraft(program, options.compile);
  ASSERT_TRUE(base.ok());
  auto found = FindCandidates(program, options.compile, *base, {});
  ASSERT_TRUE(found.ok());
  std::vector<reference::HostTensor> want;
  const auto common = LoadedArtifact::NewCommon();  // as the tuner has them
  for (size_t k = 0; k < kMostCandidates; ++k) {
    CompileOptions turned = options.compile;
    for (const auto& [site, schedules] : *found) {
      if (k > 0 && k <= schedules.size()) turned.schedules.at[site] = schedules[k - 1];
    }
    auto artifact = Compile(program, turned);
    ASSERT_TRUE(artifact.ok()) << artifact.status();
    auto loaded = LoadedArtifact::Load(artifact->plan, artifact->code, options.inputs, nullptr, nullptr, common);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    (*loaded)->Profile(true);
    ASSERT_TRUE((*loaded)->Run().ok());
    EXPECT_EQ((*loaded)->StepSeconds().size(), 3u);
    std::vector<reference::HostTensor> got = *(*loaded)->Outputs();
    if (k == 0) want = got;
    for (size_t i = 0; i < got.size(); ++i) {
      for (size_t at = 0; at < got[i].bytes.size(); at += sizeof(float)) {
        float a, b;
        std::memcpy(&a, got[i].bytes.data() + at, sizeof(float));
        std::memcpy(&b, want[i].bytes.data() + at, sizeof(float));
        ASSERT_NEAR(a, b, 1e-4f * (1 + std::abs(b))) << "variant " << k << ", output " << i;
      }
    }
  }
}

TEST(Tune, TakesNoMoreMemoryThanItMay) {
  TuneOptions options = Options();
  int64_t inputs = 0;
  for (const reference::HostTensor& input : options.inputs) inputs += static_cast<int64_t>(input.bytes.size());
  options.memory_bytes = 2 * inputs;  // those given, and nothing but them once more
  EXPECT_EQ(GetError(Tune(Program(), options).status()).kind, "too_much_memory");
  options.memory_bytes = 8 * inputs;  // whatever the number of candidates
  EXPECT_TRUE(Tune(Program(), options).ok());
}

TEST(Tune, WhatIsChosenHasItsProofAndIsRemembered) {
  Canonical program = Program();
  TuneOptions options = Options();
  auto first = Tune(program, options);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->artifact.plan.empty());
  ASSERT_EQ(first->tuning.sites.size(), 3u);
  bool any = false;
  for (const SiteResult& site : first->tuning.sites) {
    EXPECT_GT(site.candidates, 1);
    if (absl::StartsWith(site.name, "matmul")) {
      EXPECT_EQ(site.candidates, 2) << "of two providers one is the default";
    }
    EXPECT_LE(site.candidates, kMostCandidates);
    EXPECT_GT(site.default_us, 0);
    EXPECT_LE(site.best_us, site.default_us);
    EXPECT_FALSE(site.from_record);
    if (site.schedule == "default") continue;
    any = true;
    EXPECT_LT(site.ratio.high, 1) << site.name;
  }
  if (any) {
    EXPECT_LT(first->tuning.ratio.high, 1);
  }
  if (first->tuning.machine_was_busy) {
    EXPECT_TRUE(first->records.empty());
  }
  // Records of a quiet machine, written here whatever this one was.
  SiteResult five;
  five.candidates = 5;
  std::map<std::string, std::string> asked;
  options.lookup_records = [&](const std::vector<std::string>& keys) {
    for (const std::string& key : keys) asked[key] = WriteRecord(five);
    return asked;
  };
  auto second = Tune(program, options);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(asked.size(), 3u);
  for (const auto& [key, record] : first->records) EXPECT_EQ(asked.count(key), 1u) << "keys are stable";
  for (const SiteResult& site : second->tuning.sites) {
    EXPECT_TRUE(site.from_record);
    EXPECT_EQ(site.candidates, 5);
  }
  EXPECT_TRUE(second->records.empty());
}

// Run with the emulator's libraries: emulator/autotune.
// Has them tuned on the GPU, which is to be kept as long.
absl::StatusOr<std::unique_ptr<Device>> OnGpu(TuneOptions& options) {
  options.budget = std::chrono::seconds(1);
  options.compile.target = "cuda:sm_90";
  options.device = "cuda-emulated";
  auto gpu = NewCudaDevice(options.compile.target);
  if (gpu.ok()) options.gpu = gpu->get();
  return gpu;
}

TEST(TuneOnGpu, KeepsTheAlgorithmItselfInThePlan) {
  if (std::getenv("PREHEAT_EMULATED_DELAY_US") == nullptr) GTEST_SKIP() << "wants the emulator, with a slow proposal";
  Canonical program = Program(R"(
%x = input user f32[8, 16]
%w = input user f32[16, 8]
%m = matmul(%x, %w)
%e = exp(%m)
output %e)");
  TuneOptions options = Options(8, 16, 8);
  auto gpu = OnGpu(options);
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  auto result = Tune(program, options);
  ASSERT_TRUE(result.ok()) << result.status();
  std::string algorithm;
  for (const SiteResult& site : result->tuning.sites) {
    const bool product = site.name.rfind("matmul", 0) == 0;
    EXPECT_EQ(site.schedule.rfind("algorithm=", 0) == 0, product) << site.name << ": " << site.schedule;
    if (product) {
      EXPECT_LT(site.ratio.high, 0.5);
    }
  }
  auto loaded =
      LoadedArtifact::Load(result->artifact.plan, result->artifact.code, options.inputs, nullptr, options.gpu);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE((*loaded)->Run().ok());
  for (size_t step = 0; algorithm.empty() && step < 3; ++step) algorithm = (*loaded)->Algorithm(step);
  EXPECT_EQ(algorithm.rfind("cublaslt 130000 ", 0), 0u) << algorithm;
  EXPECT_NE(result->artifact.plan.find(algorithm), std::string::npos) << "the plan holds the library's own bytes";
}

// An environment variable, for a while.
struct Setting {
  Setting(const char* variable, const char* value) : name(variable) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name); }
  Setting(const Setting&) = delete;
  const char* const name;
};

// The emulator is slow with blocks of 512 threads, has no room for 256 and does not compile those of 64.
TEST(TuneOnGpu, TurnsKernelsAndDropsWhatCannotRun) {
  if (std::getenv("PREHEAT_EMULATED_UNCOMPILED_THREADS") == nullptr) GTEST_SKIP() << "wants the emulator, and that 64";
  const Setting slow("PREHEAT_EMULATED_SLOW_THREADS", "512"), refused("PREHEAT_EMULATED_REFUSED_THREADS", "256");
  Canonical program = Program(R"(
%x = input user f32[4, 512]
%y = input user f32[4, 2048]
%q = mul(%x, %x)
%r = reduce_sum(%q) {dims = [1]}
%s = reduce_sum(%y) {dims = [1]}
output %r
output %s)");
  TuneOptions options = Options(4, 512, 16);
  options.inputs[1] = reference::MakeTensor(ir::DType::kF32, {4, 2048});
  std::string lines;
  options.log = [&](const std::string& line) { lines += line + "\n"; };
  auto gpu = OnGpu(options);
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  auto result = Tune(program, options);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->tuning.sites.size(), 2u);
  std::set<std::string> schedules;
  for (const SiteResult& site : result->tuning.sites) {
    schedules.insert(site.schedule);
    EXPECT_GT(site.candidates, 1) << site.name;
    EXPECT_LE(site.candidates, kMostCandidates) << site.name;
    if (site.schedule == "row_threads=128") {
      EXPECT_LT(site.ratio.high, 0.9);
    }
  }
  EXPECT_EQ(schedules.count("row_threads=128"), 1u);
  EXPECT_LT(result->tuning.ratio.high, 1);
  for (const char* line : {"row_threads=64: NVRTC", "row_threads=256: ", "row_threads=32: ", "vector=2: "}) {
    EXPECT_TRUE(absl::StrContains(lines, line)) << lines;
  }
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 4) << lines;
  // What the records say is made again, without measuring the others.
  ASSERT_EQ(result->records.size(), 2u);
  options.lookup_records = [&](const std::vector<std::string>&) { return result->records; };
  auto again = Tune(program, options);
  ASSERT_TRUE(again.ok()) << again.status();
  for (const SiteResult& site : again->tuning.sites) EXPECT_TRUE(site.from_record);
  EXPECT_EQ(again->artifact.plan, result->artifact.plan);
}

// Attention has nothing to choose, and its plan takes long to make: a tuned artifact brings it.
TEST(TuneOnGpu, KeepsPlansOfAttention) {
  if (std::getenv("PREHEAT_EMULATED_DELAY_US") == nullptr) GTEST_SKIP() << "wants the emulator";
  Canonical program = Program(R"(
%q = input user bf16[1, 2, 8, 16]
%k = input user bf16[1, 2, 16, 8]
%v = input user bf16[1, 2, 8, 16]
%o = fused(%q, %k, %v) {base = "attention", epilogue = {"causal", "softmax", "values"}, scale = 0.25} : bf16[1, 2, 8, 16]
%p = fused(%o, %k, %v) {base = "attention", epilogue = {"causal", "softmax", "values"}, scale = 0.25} : bf16[1, 2, 8, 16]
output %p)");
  TuneOptions options = Options();
  options.inputs.clear();
  for (std::vector<int64_t> sizes : {std::vector<int64_t>{1, 2, 8, 16}, {1, 2, 16, 8}, {1, 2, 8, 16}}) {
    options.inputs.push_back(reference::MakeTensor(ir::DType::kBF16, sizes));
    std::string& bytes = options.inputs.back().bytes;
    for (size_t i = 0; i < bytes.size(); i += 2) bytes[i] = static_cast<char>(i * 7), bytes[i + 1] = 0x3e;  // near 0.1
  }
  auto gpu = OnGpu(options);
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  auto result = Tune(program, options);
  ASSERT_TRUE(result.ok()) << result.status();
  for (const SiteResult& site : result->tuning.sites) EXPECT_FALSE(absl::StartsWith(site.name, "attention"));
  const std::string& plan = result->artifact.plan;
  const size_t kept = plan.find("cudnn on ");
  ASSERT_NE(kept, std::string::npos) << "the plan holds cuDNN's";
  EXPECT_EQ(plan.find("cudnn on ", kept + 1), std::string::npos) << "once for both layers";
}

TEST(Tune, StopsWhenItIsInterrupted) {
  std::atomic<bool> cancelled = true;
  TuneOptions options = Options();
  options.compile.cancelled = &cancelled;
  EXPECT_TRUE(absl::IsCancelled(Tune(Program(), options).status()));
}

TEST(Record, ReadsWhatItWrites) {
  SiteResult site;
  site.schedule = "tile=64,width=256";
  site.candidates = 7;
  site.default_us = 12.5;
  site.ratio = {0.8, 0.75, 0.9};
  auto read = ReadRecord(WriteRecord(site));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->schedule, site.schedule);
  EXPECT_EQ(read->candidates, 7);
  EXPECT_EQ(read->ratio.high, 0.9);
  EXPECT_TRUE(read->from_record);
  for (const char* bad : {"", "tuning 2\nschedule default\n", "tuning 1\nschedule tile=many\n", "tuning 1\n"}) {
    EXPECT_FALSE(ReadRecord(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace preheat::autotune
