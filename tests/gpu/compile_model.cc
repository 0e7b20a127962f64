// compile_model MODEL_JSON TARGET FOLDER: an exported program (the JSON of torch.export's archive) to a plan and its
// code, in files of FOLDER: "plan", one file a digest, and "source.cu". Prints what compiling took. For machines that
// have a GPU and no server.
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "compiler/capture/export_archive.h"
#include "compiler/compile.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

absl::Status Run(const std::string& model, const std::string& target, const std::string& folder) {
  std::ifstream in(model, std::ios::binary);
  std::stringstream json;
  json << in.rdbuf();
  const std::string text = json.str();
  capture::ExportArchive archive;
  archive.model_json = text;
  ASSIGN_OR_RETURN(capture::AtenProgram program, capture::ImportExportedModel(archive));
  CompileOptions options;
  options.target = target;
  ASSIGN_OR_RETURN(Canonical canonical, Canonicalize(std::move(program), {}, options));
  ASSIGN_OR_RETURN(Artifact artifact, Compile(canonical, options));
  std::ofstream(folder + "/plan", std::ios::binary) << artifact.plan;
  std::ofstream(folder + "/source.cu") << artifact.source;
  for (const auto& [digest, bytes] : artifact.code) std::ofstream(folder + "/" + digest, std::ios::binary) << bytes;
  std::cout << "{\"kernels\": " << artifact.report.kernels_after << ", \"import_s\": " << canonical.seconds
            << ", \"passes_s\": " << artifact.passes_seconds << ", \"codegen_s\": " << artifact.codegen_seconds
            << ", \"compile_s\": " << artifact.compile_seconds << "}\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace preheat

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "compile_model MODEL_JSON TARGET FOLDER\n";
    return 2;
  }
  const absl::Status status = preheat::Run(argv[1], argv[2], argv[3]);
  if (status.ok()) return 0;
  std::cerr << status.message() << "\n";
  return 1;
}
