// Holds import, functionalize and lowering against eager: each folder that cases.py wrote is read, lowered with no
// operator left over, and computed by the IR's interpreter on the recorded inputs.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/capture/bind_dims.h"
#include "compiler/capture/check_program.h"
#include "compiler/capture/decompose/lower.h"
#include "compiler/capture/export_archive.h"
#include "compiler/capture/functionalize.h"
#include "compiler/capture/json_text.h"
#include "compiler/capture/program_proto.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/test_tensors.h"
#include "compiler/ir/verify.h"
#include "gtest/gtest.h"

namespace preheat {
namespace {

namespace fs = std::filesystem;
using capture::AtenProgram;
using capture::Field;
using capture::Json;
using capture::OutputSpec;
using ir::HostTensor;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Case {
  std::string model, data;
  Json json;
  bool evaluated = false;

  HostTensor Tensor(const Json& entry) const {
    HostTensor t;
    t.dtype = *ir::ParseDType(entry["dtype"].get<std::string>());
    t.shape = entry["shape"].get<std::vector<int64_t>>();
    t.data = data.substr(entry["offset"].get<size_t>(), ir::HostElements(t.shape) * ir::DTypeSize(t.dtype));
    return t;
  }
};

Case ReadCase(const fs::path& folder) {
  Case c{.model = ReadFile(folder / "model.json"),
         .data = ReadFile(folder / "data.bin"),
         .json = Json::parse(ReadFile(folder / "case.json"))};
  c.evaluated = fs::exists(folder / "data.bin");
  return c;
}

absl::StatusOr<AtenProgram> Import(const Case& c) {
  capture::ExportArchive archive{.model_json = c.model, .constants = {}, .dims_json = {}};
  for (const auto& [name, tensor] : c.json["constants"].items()) {
    if (c.evaluated) archive.constants[name] = c.Tensor(tensor).data;
  }
  absl::StatusOr<AtenProgram> program = capture::ImportExportedModel(archive);
  if (!program.ok()) return program;
  if (absl::Status s = capture::Functionalize(*program); !s.ok()) return s;
  if (absl::Status s = capture::CheckProgram(*program); !s.ok()) return s;
  return program;
}

// What the case expects of each output of the graph: mutated inputs, then the program's own but None.
std::vector<HostTensor> Expected(const Case& c, const AtenProgram& program) {
  std::vector<HostTensor> expected;
  size_t own = 0;
  for (const OutputSpec& output : program.outputs) {
    if (output.kind == OutputSpec::Kind::kMutatesInput) {
      const Json& after = Field(c.json["after"], std::to_string(output.mutates).c_str());
      expected.push_back(c.Tensor(after.is_null() ? c.json["inputs"][output.mutates] : after));
      continue;
    }
    const Json& entry = c.json["outputs"][own++];
    if (output.value >= 0) expected.push_back(c.Tensor(entry));
  }
  EXPECT_EQ(own, c.json["outputs"].size());
  return expected;
}

void Evaluate(const Case& c, const AtenProgram& program, const ir::Graph& graph, const ir::SymbolValues& symbols) {
  std::vector<HostTensor> inputs;
  for (const Json& entry : c.json["inputs"]) inputs.push_back(c.Tensor(entry));
  absl::StatusOr<std::vector<HostTensor>> got = ir::Evaluate(graph, inputs, symbols);
  ASSERT_TRUE(got.ok()) << got.status();
  std::vector<HostTensor> expected = Expected(c, program);
  ASSERT_EQ(got->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    bool half = expected[i].dtype == ir::DType::kBF16 || expected[i].dtype == ir::DType::kF16;
    EXPECT_EQ(ir::Difference((*got)[i], expected[i], half ? 2e-2 : 5e-5), "") << "output " << i;
  }
  for (const auto& [index, tensor] : c.json["after"].items()) {
    const int changed = std::stoi(index);
    bool told = std::any_of(program.outputs.begin(), program.outputs.end(),
                            [&](const OutputSpec& o) { return o.mutates == changed; });
    EXPECT_TRUE(told) << "input " << index << " changed in eager, and the program does not say so";
  }
}

ir::SymbolValues SymbolsOf(const Case& c, const AtenProgram& program) {
  ir::SymbolValues symbols;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const capture::AtenValue& value = program.values[program.inputs[i].value];
    std::vector<int64_t> shape = c.json["inputs"][i]["shape"].get<std::vector<int64_t>>();
    if (value.is_size) symbols[*value.expr.symbol()] = c.Tensor(c.json["inputs"][i]).Int(0);
    for (size_t axis = 0; axis < value.type.tensor.shape.size(); ++axis) {
      if (auto symbol = value.type.tensor.shape[axis].symbol()) symbols[*symbol] = shape[axis];
    }
  }
  return symbols;
}

void LowerAndEvaluate(const Case& c, const AtenProgram& program) {
  absl::StatusOr<ir::Graph> graph = decompose::Lower(program, {.strict = true, .exclude = {}});
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_TRUE(ir::Verify(*graph).ok()) << ir::Verify(*graph);
  if (c.evaluated) Evaluate(c, program, *graph, SymbolsOf(c, program));
}

void RunCase(const fs::path& folder) {
  Case c = ReadCase(folder);
  absl::StatusOr<AtenProgram> program = Import(c);
  ASSERT_TRUE(program.ok()) << program.status();
  LowerAndEvaluate(c, *program);
  // The same over the wire: nothing is lost.
  v1::Program proto = capture::ToProto(*program);
  absl::StatusOr<AtenProgram> again = capture::FromProto(proto);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(capture::ToProto(*again).SerializeAsString().size(), proto.SerializeAsString().size());
  if (c.json["dims"].empty()) return;
  // And with the dimensions fixed.
  std::map<std::string, int64_t> dims = c.json["dims"].get<std::map<std::string, int64_t>>();
  absl::Status bound = capture::BindDims(*program, dims);
  ASSERT_TRUE(bound.ok()) << bound;
  LowerAndEvaluate(c, *program);
}

TEST(Models, AreLoweredWholeAndComputeWhatEagerComputes) {
  const char* root = std::getenv("PREHEAT_CASES");
  ASSERT_NE(root, nullptr) << "PREHEAT_CASES names the folder that make.py or operators.py wrote";
  const char* only = std::getenv("PREHEAT_CASE");
  int cases = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (!fs::exists(entry.path() / "case.json")) continue;
    if (only != nullptr && entry.path().filename() != only) continue;
    SCOPED_TRACE(entry.path().filename().string());
    RunCase(entry.path());
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace preheat
