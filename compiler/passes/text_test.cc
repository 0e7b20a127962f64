// Runs tests/ir/passes/*.hir. A file names its pass and, where results are rounded otherwise, a tolerance:
//
//   // pass: simplify
//   // tolerance: 1e-5
//   // case: what is shown
//   <graph>
//   // becomes
//   <graph>
//
// What the pass leaves, without dead code, must be the second graph, and must compute what the first does, or fail
// as it does. With PREHEAT_BLESS=1 in the environment the file is rewritten with what came out.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/passes/testing.h"
#include "gtest/gtest.h"

namespace preheat::passes {
namespace {

struct Case {
  std::string title, before, after;
};
struct TestFile {
  std::string head, pass;
  double tolerance = 0;
  std::vector<Case> cases;
};

TestFile Read(const std::string& path) {
  std::ifstream in(path);
  TestFile file;
  std::string* into = &file.head;
  for (std::string line; std::getline(in, line);) {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, "// case: ")) {
      file.cases.push_back({std::string(rest), "", ""});
      into = &file.cases.back().before;
      continue;
    }
    if (line == "// becomes" && !file.cases.empty()) {
      into = &file.cases.back().after;
      continue;
    }
    if (absl::ConsumePrefix(&rest, "// pass: ")) file.pass = std::string(rest);
    if (absl::ConsumePrefix(&rest, "// tolerance: ") && !absl::SimpleAtod(rest, &file.tolerance)) ADD_FAILURE() << line;
    absl::StrAppend(into, line, "\n");
  }
  return file;
}

PassFn Find(const std::string& name) {
  for (const Pass& pass : Passes()) {
    if (pass.name == name) return pass.run;
  }
  return nullptr;
}

void Bless(const std::string& path, const TestFile& file, PassFn pass) {
  std::ofstream out(path);
  out << file.head;
  for (size_t i = 0; i < file.cases.size(); ++i) {
    const Case& c = file.cases[i];
    out << "// case: " << c.title << "\n" << c.before << "// becomes\n" << After(pass, c.before);
    if (i + 1 < file.cases.size()) out << "\n";
  }
}

std::vector<std::string> Files() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(PREHEAT_SOURCE_DIR "/tests/ir/passes")) {
    if (entry.path().extension() == ".hir") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class PassTextTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PassTextTest, BecomesWhatTheFileSays) {
  TestFile file = Read(GetParam());
  PassFn pass = Find(file.pass);
  ASSERT_NE(pass, nullptr) << "no pass \"" << file.pass << "\"";
  if (std::getenv("PREHEAT_BLESS") != nullptr) return Bless(GetParam(), file, pass);
  EXPECT_FALSE(file.cases.empty());
  for (const Case& c : file.cases) {
    SCOPED_TRACE(c.title);
    EXPECT_EQ(After(pass, c.before), Canonical(c.after));
    ExpectSameResults(Parsed(c.before), Parsed(c.after), file.tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PassTextTest, ::testing::ValuesIn(Files()),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

}  // namespace
}  // namespace preheat::passes
