#include "server/worker/compile_task.h"

#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cache/key.h"
#include "compiler/capture/program_proto.h"
#include "compiler/compile.h"
#include "compiler/support/status_macros.h"
#include "server/worker/artifact_blobs.h"
#include "server/worker/fault_hook.h"
#include "server/worker/import_source.h"
#include "server/worker/report_proto.h"

namespace preheat::worker {
namespace {

CompileOptions OptionsOf(const v1::CompileRequest& request, const TaskContext& context) {
  CompileOptions options;
  options.target = request.target();
  options.exclude = {request.exclude().begin(), request.exclude().end()};
  options.freeze = request.freeze();
  options.extern_allowed = request.extern_allowed();
  options.progress = context.progress;
  options.kernels = {context.lookup_kernels, context.publish_kernels};
  options.cancelled = context.cancelled;
  return options;
}

cache::Key KeyOf(const Canonical& canonical, const CompileOptions& options, const v1::Toolchain& toolchain) {
  cache::KeyInputs inputs;
  inputs.ir_text = canonical.ir_text;
  inputs.target = options.target;
  inputs.toolchain = toolchain;
  inputs.freeze = options.freeze;
  inputs.exclude = options.exclude;
  return cache::BuildKey(inputs);
}

// What differs most often, in words: the key's `ir` field says it only by digest.
std::string DescribeInputs(const ir::Graph& graph) {
  std::vector<std::string> types;
  for (const ir::GraphInput& input : graph.inputs()) {
    if (input.kind == ir::InputKind::kUser) types.push_back(input.type.ToString());
  }
  return absl::StrJoin(types, ", ");
}

v1::TensorType TypeOf(const v1::Program& program, uint32_t value) {
  v1::TensorType type = program.values(static_cast<int>(value)).tensor();
  if (program.values(static_cast<int>(value)).has_size()) type.set_dtype(v1::DTYPE_I64);
  return type;
}

// Inputs and outputs under the names of the source.
void AddBoundary(const v1::Program& program, v1::TaskDone& done) {
  const v1::DebugInfo& names = program.debug_info();
  for (int i = 0; i < program.inputs_size(); ++i) {
    v1::InputInfo& info = *done.add_inputs();
    if (i < names.input_names_size()) info.set_name(names.input_names(i));
    info.set_kind(program.inputs(i).kind());
    *info.mutable_type() = TypeOf(program, program.inputs(i).value());
  }
  for (int i = 0; i < program.outputs_size(); ++i) {
    v1::OutputInfo& info = *done.add_outputs();
    if (i < names.output_names_size()) info.set_name(names.output_names(i));
    if (program.outputs(i).has_value()) *info.mutable_type() = TypeOf(program, program.outputs(i).value());
  }
}

std::string WithoutDebugInfo(v1::Program program) {
  program.clear_debug_info();
  for (v1::Node& node : *program.mutable_nodes()) node.clear_debug_id();
  return program.SerializeAsString();
}

}  // namespace

absl::StatusOr<v1::TaskDone> RunCompileTask(const v1::CompileTask& task, const TaskContext& context) {
  const v1::CompileRequest& request = task.request();
  CompileOptions options = OptionsOf(request, context);
  auto start = std::chrono::steady_clock::now();
  context.progress("import", 0, "");
  std::map<std::string, int64_t> dims(request.dims().begin(), request.dims().end());
  ASSIGN_OR_RETURN(capture::AtenProgram source, ImportSource(request.source(), dims));
  ASSIGN_OR_RETURN(Canonical canonical, Canonicalize(std::move(source), dims, options));
  double import_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  cache::Key key = KeyOf(canonical, options, context.toolchain);
  key.fields["inputs"] = DescribeInputs(canonical.graph);
  v1::Program program = capture::ToProto(canonical.program);
  v1::TaskDone done;
  AddBoundary(program, done);
  if (!context.announce_key(key.digest, key.fields)) return done;
  DoWhatFaultsSay(request.name());

  ASSIGN_OR_RETURN(Artifact artifact, Compile(canonical, options));
  const v1::FusionReport report = ToProto(artifact.report);
  AddArtifact(std::move(artifact), report, done);
  v1::Manifest& manifest = *done.mutable_manifest();
  manifest.set_format(1);
  manifest.set_key(key.digest);
  manifest.set_target(options.target);
  *manifest.mutable_toolchain() = context.toolchain;
  *manifest.mutable_ir() = AddBlob(std::move(canonical.ir_text), done);
  *manifest.mutable_symbols() = program.symbols();
  *manifest.mutable_program() = AddBlob(WithoutDebugInfo(std::move(program)), done);
  manifest.mutable_seconds()->set_import(import_seconds);
  return done;
}

}  // namespace preheat::worker
