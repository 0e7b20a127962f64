#include "client/compilectl/model.h"

#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/compilectl/input_spec.h"
#include "client/cpp/torch_script_file.h"
#include "compiler/capture/bind_dims.h"
#include "compiler/capture/export_archive.h"
#include "compiler/capture/program_proto.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "proto/parsed_bytes.h"

namespace preheat::cli {
namespace {

constexpr size_t kMaxBundleBytes = size_t{256} << 20;  // of the file, and once more when it is parsed
constexpr size_t kLeastKeyDigits = 6;

absl::Status Invalid(std::string kind, std::string message, std::string where = "", std::string fix = "") {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = std::move(kind), .message = std::move(message), .where = std::move(where), .fix = std::move(fix)});
}

absl::StatusOr<capture::AtenProgram> Import(const v1::ExportedModel& model) {
  Json dims = Json::object();
  for (const auto& [place, name] : model.dim_names()) dims[place] = name;
  const std::string dims_json = model.dim_names().empty() ? "" : dims.dump();
  capture::ExportArchive parts;
  parts.model_json = model.model_json();
  parts.constants = {model.constants().begin(), model.constants().end()};
  parts.dims_json = dims_json;
  return capture::ImportExportedModel(parts);
}

absl::StatusOr<std::vector<ModelProgram>> LoadArchive(const std::string& path) {
  ASSIGN_OR_RETURN(ExportArchive archive, ExportArchive::Open(path));
  ModelProgram program;
  program.name = std::filesystem::path(path).stem();
  program.kind = "inference";
  program.archive = std::make_shared<ExportArchive>(std::move(archive));
  *program.source.mutable_exported_model() = program.archive->model();
  auto imported = Import(program.archive->model());
  RETURN_IF_ERROR(WithWhere(imported.status(), path));
  program.program = *std::move(imported);
  std::vector<ModelProgram> programs;
  programs.push_back(std::move(program));
  return programs;
}

// Small files may hold messages that are large in memory.
absl::Status CheckParsedSize(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  google::protobuf::io::IstreamInputStream stream(&in);
  constexpr auto kEnough = static_cast<int64_t>(kMaxBundleBytes);
  if (ParsedBytes(stream, v1::Bundle::descriptor(), kEnough) <= kEnough) return absl::OkStatus();
  return Invalid("program_too_large", absl::StrCat(path, " would take more than ", kEnough, " bytes of memory"), path,
                 "split it into several bundles");
}

absl::StatusOr<std::vector<ModelProgram>> LoadBundle(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error || !std::filesystem::is_regular_file(path))
    return Invalid("no_such_file", absl::StrCat("there is no file ", path), path);
  if (size > kMaxBundleBytes)
    return Invalid("program_too_large", absl::StrCat(path, " has ", size, " bytes, more than ", kMaxBundleBytes), path);
  RETURN_IF_ERROR(CheckParsedSize(path));
  std::ifstream in(path, std::ios::binary);
  v1::Bundle bundle;
  if (!bundle.ParseFromIstream(&in) || bundle.format() == 0 || bundle.programs().empty())
    return Invalid("malformed_bundle", absl::StrCat(path, " is no bundle of programs"), path,
                   "write it with preheat.export");
  if (bundle.format() != 1)
    return Invalid("unsupported_program_format",
                   absl::StrCat("bundles of format ", bundle.format(), " are newer than this program"), path,
                   "update Preheat");
  std::vector<ModelProgram> programs;
  const std::string stem = std::filesystem::path(path).stem();
  for (v1::BundledProgram& bundled : *bundle.mutable_programs()) {
    ModelProgram program;
    program.name = bundled.name().empty() ? stem : bundled.name();
    program.kind = bundled.kind().empty() ? "inference" : bundled.kind();
    auto imported = capture::FromProto(bundled.program());
    RETURN_IF_ERROR(WithWhere(imported.status(), absl::StrCat(path, ", program ", program.name)));
    program.program = *std::move(imported);
    *program.source.mutable_program() = std::move(*bundled.mutable_program());
    programs.push_back(std::move(program));
  }
  return programs;
}

absl::StatusOr<std::vector<ModelProgram>> LoadTorchScript(const std::string& path,
                                                          const std::vector<std::string>& inputs) {
  ModelProgram program;
  program.name = std::filesystem::path(path).stem();
  program.kind = "inference";
  v1::TorchScript& script = *program.source.mutable_torch_script();
  ASSIGN_OR_RETURN(*script.mutable_archive(), TorchScriptWithoutStorages(path));
  if (inputs.empty())
    return Invalid("missing_input", absl::StrCat(path, ": TorchScript has no shapes of its own"), path,
                   "give --input x=f32[8,128] for each tensor that forward takes");
  for (const std::string& input : inputs) script.add_inputs(input);
  std::vector<ModelProgram> programs;
  programs.push_back(std::move(program));
  return programs;
}

// "seq=128"
absl::Status AddDim(const std::string& text, std::map<std::string, int64_t>& dims) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  int64_t value = 0;
  if (parts.first.empty() || !absl::SimpleAtoi(parts.second, &value)) {
    return Invalid("malformed_dimension", absl::StrCat("--dim ", text, " is not NAME=NUMBER"),
                   absl::StrCat("--dim ", text), "write --dim seq=128");
  }
  if (!dims.emplace(parts.first, value).second) {
    return Invalid("conflicting_dimension", absl::StrCat("dimension ", parts.first, " is given twice"),
                   absl::StrCat("--dim ", text));
  }
  return absl::OkStatus();
}

size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

absl::StatusOr<std::vector<ModelProgram>> LoadModel(const std::string& path, const std::vector<std::string>& inputs) {
  if (absl::EndsWith(path, ".pt2")) return LoadArchive(path);
  if (absl::EndsWith(path, ".pt")) return LoadTorchScript(path, inputs);
  if (absl::EndsWith(path, ".preheat")) return LoadBundle(path);
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return Invalid("no_such_file", absl::StrCat("there is no file ", path), path);
  const bool planned = absl::EndsWith(path, ".hlo.pb");
  return Invalid("unsupported_source",
                 absl::StrCat(path, planned ? ": HLO modules are not read yet" : " has no known ending"), path,
                 "give a .pt2 archive of torch.export.save or preheat.export, or a .preheat bundle");
}

void AddModelFlags(CLI::App& app, ModelFlags& flags, const std::string& what) {
  app.add_option(what, flags.model,
                 what == "MODEL"
                     ? "a .pt2 archive, a TorchScript .pt file or a .preheat bundle"
                     : "a .pt2 archive, a TorchScript .pt file, a .preheat bundle, or a key (6 digits or more of it)")
      ->type_name("")
      ->required();
  app.add_option("--dim", flags.dims, "value of a symbolic dimension: seq=128 (repeatable)")
      ->type_name("NAME=N")
      ->take_all();
  app.add_option("--input", flags.inputs, "shape of an input: x=f32[8,128] (repeatable)")
      ->type_name("NAME=TYPE[SIZES]")
      ->take_all();
  app.add_option("--program", flags.program, "which program of a bundle")->type_name("NAME");
  app.add_option("--target", flags.target, "cpu, cuda, or a canonical target such as cpu:x86-64-v3")
      ->type_name("TARGET")
      ->capture_default_str();
  app.add_option("--mode", flags.mode, "fast, tuned or background")->type_name("MODE");
  app.add_option("--exclude", flags.exclude, "operator that stays an extern call: aten.gelu (repeatable)")
      ->type_name("OPERATOR")
      ->take_all();
  app.add_flag("--freeze", flags.freeze, "weights change only with a refresh: they may be packed and folded");
}

absl::StatusOr<v1::Mode> ParseMode(const std::string& text, v1::Mode otherwise) {
  if (text.empty()) return otherwise;
  if (text == "fast") return v1::FAST;
  if (text == "tuned") return v1::TUNED;
  if (text == "background") return v1::BACKGROUND;
  return Invalid("unknown_mode",
                 absl::StrCat("\"", text, "\" is no mode", DidYouMean(text, {"fast", "tuned", "background"})), "",
                 "the modes are fast, tuned and background");
}

absl::StatusOr<RequestOptions> MakeRequestOptions(const ModelFlags& flags, const ModelProgram& program,
                                                  v1::Mode otherwise) {
  RequestOptions options;
  options.name = program.name;
  options.target = flags.target;
  options.exclude = flags.exclude;
  options.freeze = flags.freeze;
  ASSIGN_OR_RETURN(options.mode, ParseMode(flags.mode, otherwise));
  for (const std::string& dim : flags.dims) RETURN_IF_ERROR(AddDim(dim, options.dims));
  if (!program.imported()) return options;
  for (const std::string& input : flags.inputs) RETURN_IF_ERROR(AddInputShape(input, program.program, options.dims));
  capture::AtenProgram bound = program.program;
  RETURN_IF_ERROR(capture::BindDims(bound, options.dims));
  return options;
}

absl::StatusOr<ModelProgram> LoadOneProgram(const ModelFlags& flags) {
  ASSIGN_OR_RETURN(std::vector<ModelProgram> programs, LoadModel(flags.model, flags.inputs));
  std::vector<std::string> names;
  for (ModelProgram& program : programs) {
    names.push_back(program.name);
    if (flags.program == program.name || (flags.program.empty() && programs.size() == 1)) return std::move(program);
  }
  const std::string fix = absl::StrCat("name one with --program: ", absl::StrJoin(names, ", "));
  if (flags.program.empty())
    return Invalid("ambiguous_program", absl::StrCat(flags.model, " holds ", names.size(), " programs"), flags.model,
                   fix);
  return Invalid("unknown_program",
                 absl::StrCat(flags.model, " has no program \"", flags.program, "\"", DidYouMean(flags.program, names)),
                 flags.model, fix);
}

bool IsKey(const std::string& argument) {
  const auto hexadecimal = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (argument.size() < kLeastKeyDigits || argument.size() > 64 ||
      !std::all_of(argument.begin(), argument.end(), hexadecimal))
    return false;
  std::error_code error;
  return !std::filesystem::exists(argument, error);
}

absl::StatusOr<std::string> ResolveKey(Context& context, const std::string& prefix) {
  if (!IsKey(prefix)) {
    return Invalid("malformed_key",
                   absl::StrCat("\"", prefix, "\" is no key: a key has 64 hexadecimal digits, of which the first ",
                                kLeastKeyDigits, " may do"),
                   prefix, "`compilectl ls` lists the keys");
  }
  if (IsDigest(prefix)) return prefix;
  ASSIGN_OR_RETURN(v1::ListReply list, context.client().List(prefix));
  std::vector<std::string> keys;
  for (const v1::Entry& entry : list.entries()) {
    if (absl::StartsWith(entry.key(), prefix)) keys.push_back(entry.key());
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  if (keys.size() > 1)
    return Invalid("ambiguous_key", absl::StrCat(keys.size(), " keys begin with ", prefix), prefix, "give more digits");
  if (keys.empty()) {
    return MakeError(absl::StatusCode::kNotFound, {.kind = "unknown_key",
                                                   .message = absl::StrCat("no stored key begins with ", prefix),
                                                   .where = prefix,
                                                   .fix = "`compilectl ls` lists the keys"});
  }
  return keys[0];
}

absl::StatusOr<v1::Manifest> FindManifest(Context& context, const std::string& prefix) {
  ASSIGN_OR_RETURN(std::string key, ResolveKey(context, prefix));
  v1::LookupRequest request;
  request.add_keys(key);
  ASSIGN_OR_RETURN(v1::LookupReply reply, context.client().Lookup(std::move(request)));
  if (reply.manifests_size() != 1 || reply.manifests(0).key().empty()) {
    return MakeError(absl::StatusCode::kNotFound, {.kind = "unknown_key",
                                                   .message = absl::StrCat("nothing is stored under key ", key),
                                                   .where = key,
                                                   .fix = "`compilectl ls` lists the keys"});
  }
  return reply.manifests(0);
}

std::string DidYouMean(const std::string& wrong, const std::vector<std::string>& names) {
  const std::string* best = nullptr;
  size_t nearest = std::max<size_t>(2, wrong.size() / 3) + 1;
  for (const std::string& name : names) {
    const size_t distance = EditDistance(wrong, name);
    if (distance < nearest) nearest = distance, best = &name;
  }
  return best == nullptr ? "" : absl::StrCat(" (did you mean \"", *best, "\"?)");
}

}  // namespace preheat::cli
