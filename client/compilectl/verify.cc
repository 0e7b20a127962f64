#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/compilectl/command.h"
#include "client/compilectl/model.h"
#include "client/compilectl/model_inputs.h"
#include "client/compilectl/report.h"
#include "client/compilectl/table.h"
#include "compiler/reference/inputs/host_tensor.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

// What a verification may carry: beyond it the worker makes up the weights, and the answer says so.
constexpr int64_t kMaxSentBytes = int64_t{48} << 20;

struct Flags : ModelFlags {
  uint64_t seed = 0;
};

// The model's own weights and samples, dense, while they fit. False when none are sent.
absl::StatusOr<bool> AddOwnInputs(const ModelProgram& program, const RequestOptions& options,
                                  v1::VerifyRequest& request) {
  ASSIGN_OR_RETURN(OwnInputs own, ReadOwnInputs(program, options.dims));
  int64_t bytes = 0;
  for (const auto& [index, tensor] : own.tensors) bytes += static_cast<int64_t>(tensor.bytes.size());
  if (bytes > kMaxSentBytes) return false;
  for (const auto& [index, tensor] : own.tensors)
    (*request.mutable_inputs())[static_cast<uint32_t>(index)] = Dense(tensor).bytes;
  for (const auto& [name, value] : own.symbols) (*request.mutable_dims())[name] = value;
  return !own.tensors.empty();
}

absl::StatusOr<bool> Fill(Context& context, const Flags& flags, v1::VerifyRequest& request) {
  if (IsKey(flags.model)) {
    ASSIGN_OR_RETURN(std::string key, ResolveKey(context, flags.model));
    request.set_key(key);
    return false;
  }
  ASSIGN_OR_RETURN(ModelProgram program, LoadOneProgram(flags));
  ASSIGN_OR_RETURN(RequestOptions options, MakeRequestOptions(flags, program, v1::FAST));
  options.extern_allowed = true;
  ASSIGN_OR_RETURN(v1::CompileResult result,
                   context.client().Request(program.source, options, context.Stages(program.name)));
  request.set_key(result.key());
  return AddOwnInputs(program, options, request);
}

std::string Text(const v1::VerifyReply& reply, bool own) {
  const v1::Evidence& evidence = reply.evidence();
  std::string text = absl::StrCat(
      reply.key(), "\n", reply.ok() ? "ok" : absl::StrCat("FAILED (", StateName(evidence.state()), ")"),
      evidence.reason().empty() ? "" : ": ", evidence.reason(), "\nerror ", HumanNumber(evidence.rel_error()),
      " against float64, eager's own ", HumanNumber(evidence.eager_rel_error()), "\n",
      own ? "the model's own weights" : "made-up inputs", "\n");
  Table table({{.header = "output", .right = true},
               {.header = "type"},
               {.header = "error", .right = true},
               {.header = "eager", .right = true}});
  const Json outputs = EvidenceObject(evidence)["outputs"];
  for (size_t i = 0; i < outputs.size(); ++i) {
    const v1::OutputError& output = evidence.outputs(static_cast<int>(i));
    table.Add({absl::StrCat(i),
               absl::StrCat(outputs[i]["dtype"].get<std::string>(), "[", absl::StrJoin(output.shape(), ","), "]"),
               HumanNumber(output.rel_error()), HumanNumber(output.eager_rel_error())});
  }
  return text + (table.empty() ? "" : table.Render());
}

absl::StatusOr<Outcome> Verify(Context& context, const Flags& flags) {
  v1::VerifyRequest request;
  request.set_seed(flags.seed);
  ASSIGN_OR_RETURN(bool own, Fill(context, flags, request));
  v1::Progress progress;
  progress.set_stage("verify");
  context.progress().Stage(flags.model, progress);
  ASSIGN_OR_RETURN(v1::VerifyReply reply, context.client().Verify(request));
  Outcome outcome;
  outcome.document = {{"key", request.key()}, {"ok", reply.ok()}};
  outcome.document.update(EvidenceObject(reply.evidence()));
  outcome.document["state"] = StateName(reply.evidence().state());
  outcome.document["reason"] = reply.evidence().reason();
  outcome.document["own_weights"] = own;
  outcome.text = Text(reply, own);
  outcome.exit_status = reply.ok() ? 0 : 1;
  return outcome;
}

}  // namespace

Command AddVerify(CLI::App& root) {
  CLI::App* app = root.add_subcommand("verify", "an artifact's error against float64, beside eager's own");
  auto flags = std::make_shared<Flags>();
  AddModelFlags(*app, *flags, "MODEL|KEY");
  app->add_option("--seed", flags->seed, "of inputs that are made up")->type_name("N")->capture_default_str();
  return {app, [flags](Context& context) { return Verify(context, *flags); }};
}

}  // namespace preheat::cli
