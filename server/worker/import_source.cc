#include "server/worker/import_source.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "compiler/capture/export_archive.h"
#include "compiler/capture/program_proto.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#if PREHEAT_WITH_TORCH
#include "compiler/capture/torch_script/import_torch_script.h"
#endif

namespace preheat::worker {
namespace {

// Bad UTF-8 from outside becomes replacement characters instead of an exception.
std::string ToJson(const google::protobuf::Map<std::string, std::string>& names) {
  if (names.empty()) return "";
  nlohmann::json json(std::map<std::string, std::string>(names.begin(), names.end()));
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<capture::AtenProgram> ImportArchive(const v1::ExportedModel& model) {
  std::string dims = ToJson(model.dim_names());
  capture::ExportArchive archive;
  archive.model_json = model.model_json();
  for (const auto& [name, bytes] : model.constants()) archive.constants[name] = bytes;
  archive.dims_json = dims;
  return capture::ImportExportedModel(archive);
}

[[maybe_unused]] absl::Status Unsupported(const char* what) {
  return MakeError(absl::StatusCode::kUnimplemented,
                   {.kind = "unsupported_source",
                    .message = std::string(what) + " cannot be imported yet",
                    .where = "source",
                    .fix = "export the model with torch.export.save, or preheat.export"});
}

absl::StatusOr<capture::AtenProgram> Import(const v1::TorchScript& script, std::map<std::string, int64_t>& dims) {
#if PREHEAT_WITH_TORCH
  capture::TorchScriptSource source;
  source.archive = script.archive();
  source.inputs = {script.inputs().begin(), script.inputs().end()};
  source.dims = std::exchange(dims, {});
  return capture::ImportTorchScript(source);
#else
  return Unsupported("TorchScript");
#endif
}

}  // namespace

absl::StatusOr<capture::AtenProgram> ImportSource(const v1::Source& source, std::map<std::string, int64_t>& dims) {
  switch (source.kind_case()) {
    case v1::Source::kProgram: return capture::FromProto(source.program());
    case v1::Source::kExportedModel: return ImportArchive(source.exported_model());
    case v1::Source::kTorchScript: return Import(source.torch_script(), dims);
    case v1::Source::kHloModule: return Unsupported("an HLO module");
    case v1::Source::KIND_NOT_SET: break;
  }
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "invalid_request", .message = "the request has no program", .where = "source", .fix = ""});
}

}  // namespace preheat::worker
