#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "gtest/gtest.h"

// What the compiler emits for a few programs (*.hir), kept beside them (*.golden, the epoch in the first line). A
// cached artifact is found by a key that holds kCompilerEpoch, so a change of what is emitted must raise it: else
// clusters go on serving the old code. After raising it, PREHEAT_BLESS=1 writes the files anew.

namespace preheat {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(PREHEAT_SOURCE_DIR) / "tests" / "golden";
constexpr char kTarget[] = "cpu:x86-64-v3";

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string EpochLine(uint32_t epoch) { return absl::StrCat("// epoch ", epoch, ", target ", kTarget, "\n"); }

// Everything emitted for the program of `path`. Objects are left out: they follow from sources and toolchain.
absl::StatusOr<std::string> Emit(const fs::path& path) {
  auto graph = ir::ParseGraph(ReadFile(path));
  if (!graph.ok()) return graph.status();
  Canonical canonical;
  canonical.ir_text = ir::Print(*graph);
  canonical.graph = *std::move(graph);
  CompileOptions options;
  options.target = kTarget;
  auto artifact = Compile(canonical, options);
  if (!artifact.ok()) return artifact.status();
  return artifact->source;
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, ChangedSourcesRaiseTheEpoch) {
  const fs::path program = kFolder / (GetParam() + ".hir"), golden = kFolder / (GetParam() + ".golden");
  auto source = Emit(program);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_FALSE(source->empty());
  const std::string kept = ReadFile(golden), now = EpochLine(kCompilerEpoch) + *source;
  const bool bless = std::getenv("PREHEAT_BLESS") != nullptr;
  const bool same_epoch = kept.rfind(EpochLine(kCompilerEpoch), 0) == 0;
  if (bless && (kept.empty() || !same_epoch)) {
    std::ofstream(golden, std::ios::binary) << now;
    return;
  }
  if (same_epoch) {
    EXPECT_EQ(kept, now) << "emitted sources changed: raise kCompilerEpoch (compiler/compile.h), then run this test "
                            "once with PREHEAT_BLESS=1 and commit the *.golden files";
  } else {
    ADD_FAILURE() << golden << (kept.empty() ? " is not there" : " is of another epoch")
                  << ": run this test once with PREHEAT_BLESS=1 and commit the *.golden files";
  }
}

TEST_P(GoldenTest, EmittingTwiceGivesTheSame) {
  auto first = Emit(kFolder / (GetParam() + ".hir")), second = Emit(kFolder / (GetParam() + ".hir"));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*first, *second);
}

std::vector<std::string> Programs() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".hir") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Programs, GoldenTest, testing::ValuesIn(Programs()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace preheat
