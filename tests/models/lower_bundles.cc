// lower_bundles FOLDER: for each .preheat file of the folder a line with the operators that have no native form, and
// why the first of them has none. What `preheat.export` or PREHEAT_RECORD wrote; nothing is compiled.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "compiler/capture/check_program.h"
#include "compiler/capture/decompose/lower.h"
#include "compiler/capture/functionalize.h"
#include "compiler/capture/program_proto.h"

namespace preheat {
namespace {

namespace fs = std::filesystem;

v1::Bundle ReadBundle(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  v1::Bundle bundle;
  bundle.ParseFromIstream(&file);
  return bundle;
}

struct Found {
  std::map<std::string, int> externs;
  std::string why;
};

void Look(const v1::Program& proto, Found& found) {
  absl::StatusOr<capture::AtenProgram> program = capture::FromProto(proto);
  absl::Status status = program.status();
  if (status.ok()) status = capture::Functionalize(*program);
  absl::StatusOr<ir::Graph> graph =
      status.ok() ? decompose::Lower(*program, {}) : absl::StatusOr<ir::Graph>(std::move(status));
  if (!graph.ok()) {
    found.why = std::string(graph.status().message());
    ++found.externs["whole graph"];
    return;
  }
  for (const ir::Node& node : graph->nodes()) {
    if (node.op() == ir::Op::kExtern) ++found.externs[node.String("name")];
  }
  if (found.why.empty()) {
    graph = decompose::Lower(*program, {.strict = true, .exclude = {}});
    if (!graph.ok()) found.why = std::string(graph.status().message());
  }
}

int Main(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".preheat") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    Found found;
    const v1::Bundle bundle = ReadBundle(path);
    for (const v1::BundledProgram& program : bundle.programs()) Look(program.program(), found);
    std::cout << path.stem().string() << "\t";
    for (const auto& [op, count] : found.externs) std::cout << op << ":" << count << " ";
    std::cout << "\t" << found.why << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace preheat

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return preheat::Main(argv[1]);
}
