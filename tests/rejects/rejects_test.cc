// One file for each input that must be refused: README.md says how they are written.

#include <google/protobuf/text_format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/capture/decompose/lower.h"
#include "compiler/capture/export_archive.h"
#include "compiler/capture/functionalize.h"
#include "compiler/capture/program_proto.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "gtest/gtest.h"

namespace preheat {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<capture::AtenProgram> Import(const std::string& source, const std::string& text) {
  if (source == "export") return capture::ImportExportedModel({.model_json = text, .constants = {}, .dims_json = ""});
  v1::Program proto;
  if (!google::protobuf::TextFormat::ParseFromString(text, &proto))
    return absl::InvalidArgumentError("no text-format Program");
  return capture::FromProto(proto);
}

absl::Status Compile(const std::string& source, const std::string& text) {
  ASSIGN_OR_RETURN(capture::AtenProgram program, Import(source, text));
  RETURN_IF_ERROR(capture::Functionalize(program));
  return decompose::Lower(program).status();
}

TEST(Rejects, EachFileWithItsKind) {
  int files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(PREHEAT_SOURCE_DIR "/tests/rejects")) {
    if (entry.path().extension() != ".reject") continue;
    SCOPED_TRACE(entry.path().filename().string());
    std::ifstream file(entry.path());
    std::string source, kind;
    std::getline(file, source);
    std::getline(file, kind);
    std::stringstream text;
    text << file.rdbuf();
    absl::Status status = Compile(source, text.str());
    EXPECT_FALSE(status.ok());
    Error error = GetError(status);
    EXPECT_EQ(error.kind, kind) << status;
    EXPECT_FALSE(error.message.empty());
    ++files;
  }
  EXPECT_GE(files, 10);
}

}  // namespace
}  // namespace preheat
