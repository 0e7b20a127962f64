// Random programs against eager: PREHEAT_FUZZ_FIRST and PREHEAT_FUZZ_SEEDS choose others than CI's 10,000;
// PREHEAT_FUZZ_TRACE says which one runs, should it end the process.
//
// Compiling is what costs, so the kernels of 50 programs become one source for one run of the host compiler. One batch
// in ten has the very flags that users' kernels get (-O3), the others -O1: what the fuzz looks for is what was emitted.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/capture/decompose/exact.h"
#include "compiler/draft.h"
#include "compiler/support/status_macros.h"
#include "kernels/runtime/preheat_runtime.h"
#include "tests/conformance/graph_runner.h"
#include "tests/eager_fuzz/compile_together.h"
#include "tests/eager_fuzz/random_program.h"

namespace preheat {
namespace {

using ir::HostTensor;
using testing::RandomProgram;

constexpr int kShards = 20, kBatch = 50;

int Setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

std::string Describe(const RandomProgram& random) {
  const capture::AtenProgram& p = random.program;
  std::string text;
  for (const auto& [name, value] : random.symbols) absl::StrAppend(&text, name, " = ", value, "\n");
  auto type = [&](int id) {
    std::string strides = absl::StrJoin(p.values[id].type.strides, ",", [](std::string* out, const ir::Expr& e) {
      absl::StrAppend(out, e.ToString());
    });
    return absl::StrCat("v", id, ": ", p.values[id].type.tensor.ToString(), " strides ", strides);
  };
  for (const auto& input : p.inputs) absl::StrAppend(&text, "input ", type(input.value), "\n");
  for (const auto& node : p.nodes) {
    absl::StrAppend(&text, node.op, "(");
    for (const auto& arg : node.args) {
      absl::StrAppend(&text, arg.name);
      if (auto* ref = std::get_if<capture::ValueRef>(&arg.value)) absl::StrAppend(&text, "=v", ref->id);
      if (auto* e = std::get_if<ir::Expr>(&arg.value)) absl::StrAppend(&text, "=", e->ToString());
      absl::StrAppend(&text, " ");
    }
    absl::StrAppend(&text, ")");
    for (int id : node.results) absl::StrAppend(&text, " -> ", type(id));
    absl::StrAppend(&text, "\n");
  }
  for (const auto& output : p.outputs) absl::StrAppend(&text, "output ", type(output.value), "\n");
  return text;
}

double Relative(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kF64: return 1e-12;
    case ir::DType::kF32: return 1e-5;
    case ir::DType::kF16: return 4e-3;
    default: return 2e-2;
  }
}

// Whether eager itself agrees with float64: otherwise it is no judge.
bool Judges(const HostTensor& eager, const HostTensor& wide) {
  for (int64_t i = 0; i < eager.elements(); ++i) {
    double size = std::isfinite(testing::NumberAt(wide, i)) ? std::abs(testing::NumberAt(wide, i)) : 0;
    double allowed = ir::IsFloat(eager.dtype) ? Relative(eager.dtype) * 5 * (1 + size) : 0;
    if (!(testing::ErrorAt(eager, wide, i) <= allowed)) return false;
  }
  return true;
}

// The first element that is further from float64 than eager's own error and rounding explain.
std::string Differs(const HostTensor& got, const HostTensor& eager, const HostTensor& wide) {
  if (got.dtype != eager.dtype || got.shape != eager.shape) return "the types differ";
  double largest = 0, error = 0;
  for (int64_t i = 0; i < wide.elements(); ++i) {
    double value = std::abs(testing::NumberAt(wide, i));
    if (std::isfinite(value)) largest = std::max(largest, value);
    error = std::max(error, testing::ErrorAt(eager, wide, i));
  }
  for (int64_t i = 0; i < wide.elements(); ++i) {
    double value = std::abs(testing::NumberAt(wide, i));
    double size = std::isfinite(value) ? value + 0.1 * largest + 0.05 : 0;
    double allowed = ir::IsFloat(got.dtype) ? Relative(got.dtype) * size + 3 * error : 0;
    if (testing::ErrorAt(got, wide, i) <= allowed) continue;
    return absl::StrCat("element ", i, ": ", testing::NumberAt(got, i), ", eager ", testing::NumberAt(eager, i),
                        ", float64 ", testing::NumberAt(wide, i));
  }
  return "";
}

// A program on its way through the compiler.
struct Trial {
  uint64_t seed;
  RandomProgram random;
  Canonical canonical;
  Draft draft;
};

class EagerFuzz : public ::testing::TestWithParam<int> {
 protected:
  absl::StatusOr<Trial> Prepare(uint64_t seed) {
    Trial trial;
    trial.seed = seed;
    ASSIGN_OR_RETURN(trial.random, testing::MakeRandomProgram(seed, 2 + static_cast<int>(seed % 11)));
    CompileOptions options;
    options.target = preheat_host_target();
    ASSIGN_OR_RETURN(trial.canonical, Canonicalize(trial.random.program, {}, options));
    ASSIGN_OR_RETURN(trial.draft, MakeDraft(trial.canonical, options));
    return trial;
  }

  void RunBatch(uint64_t first, int count, const std::vector<std::string>& flags) {
    std::vector<Trial> trials;
    std::vector<codegen::EmittedKernel> kernels;
    for (uint64_t seed = first; seed < first + count; ++seed) {
      auto trial = Prepare(seed);
      if (!trial.ok()) {
        auto random = testing::MakeRandomProgram(seed, 2 + static_cast<int>(seed % 11));
        ADD_FAILURE() << "seed " << seed << ": " << trial.status() << "\n" << (random.ok() ? Describe(*random) : "");
        continue;
      }
      for (const auto& [op, entry] : trial->draft.artifact.report.extern_calls) {
        auto& counted = entry.second == decompose::kKeepsEagersBits ? eagers_own_ : not_native_;
        ++counted[absl::StrCat(op, " in seed ", seed, ": ", entry.second)];
      }
      if (!trial->draft.artifact.report.extern_calls.empty() || trial->random.program.outputs.empty()) continue;
      kernels.insert(kernels.end(), trial->draft.built.sources.begin(), trial->draft.built.sources.end());
      trials.push_back(*std::move(trial));
    }
    auto code = testing::CompileTogether(kernels, *ParseCpuTarget(preheat_host_target()), flags);
    ASSERT_TRUE(code.ok()) << "seeds from " << first << ": " << code.status();
    for (Trial& trial : trials) Judge(std::move(trial), *code);
  }

  void Judge(Trial trial, const std::string& code) {
    SCOPED_TRACE(absl::StrCat("seed ", trial.seed));
    const bool trace = std::getenv("PREHEAT_FUZZ_TRACE") != nullptr;
    if (trace) std::fprintf(stderr, "seed %d\n%s", static_cast<int>(trial.seed), Describe(trial.random).c_str());
    if (trace) std::fprintf(stderr, "%s", trial.draft.artifact.source.c_str());
    std::string source = trial.draft.artifact.source;
    std::vector<std::string> objects;
    if (!trial.draft.built.sources.empty()) objects.push_back(code);
    auto artifact = FinishDraft(std::move(trial.draft), objects);
    ASSERT_TRUE(artifact.ok()) << artifact.status() << "\n" << Describe(trial.random);
    auto runner = testing::GraphRunner::Of(std::move(trial.canonical.graph), *std::move(artifact));
    ir::SymbolValues symbols = trial.random.symbols;
    for (int round = 0; round < (symbols.empty() ? 1 : 2); ++round) {
      std::vector<HostTensor> inputs = testing::InputsFor(trial.random, symbols, trial.seed);
      auto eager = testing::RunEager(trial.random.program, inputs, symbols, false);
      auto wide = testing::RunEager(trial.random.program, inputs, symbols, true);
      ASSERT_TRUE(round > 0 || eager.ok()) << eager.status();
      if (!eager.ok()) continue;     // sizes at which eager refuses an operator
      if (!wide.ok()) wide = eager;  // quotients of integers are f32 even there, and may meet f64
      auto got = runner.Run(inputs, symbols);
      ASSERT_TRUE(got.ok()) << got.status() << "\n" << Describe(trial.random);
      for (size_t i = 0; i < got->size(); ++i) {
        ++compared_;
        if (!Judges((*eager)[i], (*wide)[i])) {
          ++undecided_;
          continue;
        }
        EXPECT_EQ(Differs((*got)[i], (*eager)[i], (*wide)[i]), "") << "output " << i << ", round " << round << " of\n"
                                                                   << Describe(trial.random) << source;
      }
      for (auto& [name, value] : symbols) value = 2 + (value * 7 + static_cast<int64_t>(trial.seed)) % 30;
    }
  }

  std::map<std::string, int> eagers_own_, not_native_;  // extern calls, those that are left to torch by design apart
  int compared_ = 0, undecided_ = 0;
};

TEST_P(EagerFuzz, RandomProgramsAgreeWithEager) {
  const int count = std::max(1, Setting("PREHEAT_FUZZ_SEEDS", 10000) / kShards);
  const uint64_t first = Setting("PREHEAT_FUZZ_FIRST", 0) + GetParam() * count;
  for (int at = 0, batch = 0; at < count && !HasFailure(); at += kBatch, ++batch) {
    const bool as_users = (batch + GetParam()) % 10 == 0;
    RunBatch(first + at, std::min(kBatch, count - at), {as_users ? "-O3" : "-O1"});
  }
  std::string text = absl::StrJoin(not_native_, ", ", absl::PairFormatter(" "));
  EXPECT_LE(static_cast<int>(not_native_.size()), 2 + count / 100) << "not compiled natively: " << text;
  EXPECT_LE(static_cast<int>(eagers_own_.size()), 2 + count / 20) << "left to torch for its bits (exact.h)";
  EXPECT_LE(undecided_, compared_ / 20) << "too many programs that eager itself cannot judge";
  RecordProperty("compared", compared_);
}

INSTANTIATE_TEST_SUITE_P(Shard, EagerFuzz, ::testing::Range(0, kShards));

}  // namespace
}  // namespace preheat
