#include "server/compile_request.h"

#include <algorithm>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cache/key.h"
#include "cache/records.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "server/compile_flight.h"
#include "server/find_artifact.h"
#include "server/tuning.h"
#include "server/verification.h"

namespace preheat::server {
namespace {

constexpr std::chrono::milliseconds kToolchainPoll{50};
constexpr std::chrono::milliseconds kFirstWorker{20000};
constexpr int64_t kMostInlineBytes = int64_t{64} << 20;

double CompileSeconds(const v1::StageSeconds& seconds) {
  return seconds.import() + seconds.passes() + seconds.codegen() + seconds.compile() + seconds.tune();
}

// The request with its program. What stays behind is what a reply needs: a thousand may wait, and only one program is
// compiled.
v1::CompileRequest TakeProgram(v1::CompileRequest& request) {
  std::unique_ptr<v1::Source> source(request.release_source());
  v1::CompileRequest whole = request;
  if (source->has_program()) {
    v1::DebugInfo& names = *request.mutable_source()->mutable_program()->mutable_debug_info();
    *names.mutable_input_names() = source->program().debug_info().input_names();
    *names.mutable_output_names() = source->program().debug_info().output_names();
  }
  whole.set_allocated_source(source.release());
  return whole;
}

// The store has just found out, and no lookup gives the artifact again.
bool LostABlob(const absl::Status& status) { return !status.ok() && GetError(status).kind == "unknown_blob"; }

absl::Status SourceMissing() {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "invalid_request",
                    .message = "the request has no program, and what is stored does not answer it",
                    .where = "source",
                    .fix = "send the program itself"});
}

}  // namespace

absl::StatusOr<v1::CompileResult> CompileRequest::Run(const Caller& caller) {
  WaitForToolchain(caller.cancelled);
  ASSIGN_OR_RETURN(std::optional<v1::CompileResult> result, Begin());  // alias → key → a servable generation
  if (!result) {                                                       // a hit: nothing is compiled; otherwise
    ASSIGN_OR_RETURN(std::shared_ptr<Flight> flight, Join(nullptr));   // coalesce; task; verify digests; publish
    if (!flight) return SourceMissing();
    ASSIGN_OR_RETURN(result, Finish(Wait(flight, caller)));  // manifest and blobs, to every waiter
    if (result->result() == v1::SOURCE_NEEDED) return SourceMissing();
  }
  std::shared_ptr<Flight> tuning = JoinTuning(*result);  // the next generation, waited for in mode tuned
  return tuning ? FinishTuned(Wait(tuning, caller), *std::move(result)) : *std::move(result);
}

absl::StatusOr<std::optional<v1::CompileResult>> CompileRequest::Begin() {
  RETURN_IF_ERROR(Admit());                                       // size and shape; target and alias
  ASSIGN_OR_RETURN(std::optional<Outcome> known, LookUpAlias());  // alias → key → a servable generation
  if (known) {                                                    // a hit: nothing is compiled,
    absl::StatusOr<v1::CompileResult> reply = Reply(*std::move(known));
    if (reply.ok()) return *std::move(reply);
    if (!LostABlob(reply.status())) return reply.status();  // unless a blob of it turns out to be corrupt
  }
  RETURN_IF_ERROR(CheckFailedBefore());  // failures are cached by type
  return std::nullopt;
}

absl::StatusOr<std::shared_ptr<Flight>> CompileRequest::Join(std::shared_ptr<void> room) {
  return by_digest_ ? ShareFlight() : JoinFlight(std::move(room), request_.lookup_only());
}

absl::StatusOr<v1::CompileResult> CompileRequest::Finish(absl::StatusOr<Outcome> outcome) {
  place_.reset();
  if (by_digest_ && SaysNothing(outcome)) return NeedSource();
  if (!outcome.ok()) {
    label_ = absl::IsResourceExhausted(outcome.status()) ? "refused" : "failed";
    return outcome.status();
  }
  const bool compiled = outcome->result == v1::COMPILED;
  if (compiled && !leads_) outcome->result = v1::COALESCED;
  const std::string key = outcome->key;
  absl::StatusOr<v1::CompileResult> reply = Reply(*std::move(outcome));
  // Held against the reference and withdrawn before this reply was made.
  if (compiled && !reply.ok() && GetError(reply.status()).kind == "unknown_key") return FailedVerification(key);
  return reply;
}

// --- Tune ---

std::shared_ptr<Flight> CompileRequest::JoinTuning(const v1::CompileResult& result) {
  if (request_.mode() == v1::FAST || request_.lookup_only() || request_.generation() != 0) return nullptr;
  if (!result.has_manifest() || result.manifest().tuned()) return nullptr;
  auto newest = services_.index.Lookup(result.key(), 0);
  if (!newest.ok() || !*newest || (*newest)->manifest().tuned()) return nullptr;
  const bool waits = request_.mode() == v1::TUNED;
  const auto after = waits ? std::nullopt : std::optional(services_.tune_after);
  std::shared_ptr<Flight> flight = server::JoinTuning(services_, result.manifest(), request_, after);
  if (flight == nullptr || waits) return flight;
  services_.inflight.Leave(flight);
  return nullptr;
}

v1::CompileResult CompileRequest::FinishTuned(const absl::StatusOr<Outcome>& outcome, v1::CompileResult by_default) {
  if (!outcome.ok()) return by_default;
  Outcome tuned = *outcome;
  tuned.inputs = by_default.inputs();
  tuned.outputs = by_default.outputs();
  newest_.reset();
  absl::StatusOr<v1::CompileResult> reply = Reply(std::move(tuned));
  return reply.ok() ? *std::move(reply) : std::move(by_default);
}

absl::StatusOr<Outcome> CompileRequest::FindKey(const Caller& caller) {
  WaitForToolchain(caller.cancelled);
  RETURN_IF_ERROR(Admit());
  if (by_digest_) return SourceMissing();
  ASSIGN_OR_RETURN(std::shared_ptr<Flight> flight, JoinFlight(nullptr, /*look_only=*/true));
  return Wait(flight, caller);
}

// --- Admit ---

void CompileRequest::WaitForToolchain(const std::function<bool()>& cancelled) const {
  for (auto waited = kToolchainPoll; !toolchain_known() && waited < kFirstWorker && !cancelled();
       waited += kToolchainPoll) {
    std::this_thread::sleep_for(kToolchainPoll);
  }
}

absl::Status CompileRequest::Admit() {
  label_ = "refused";
  RETURN_IF_ERROR(services_.admission.Check(request_));
  by_digest_ = request_.source().kind_case() == v1::Source::KIND_NOT_SET;
  ASSIGN_OR_RETURN(target_, ResolveTarget());
  alias_ = cache::BuildAlias(request_, target_, services_.pool.toolchain().value_or(v1::Toolchain()));
  label_ = "failed";
  return absl::OkStatus();
}

// "" and "cpu" mean the client's own CPU; one that does not say what it has gets what the workers have.
absl::StatusOr<std::string> CompileRequest::ResolveTarget() const {
  const std::string& target = request_.target();
  if (absl::StartsWith(target, "cpu:") || absl::StartsWith(target, "cuda:")) return target;
  if (!target.empty() && target != "cpu") {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.kind = "unsupported_target",
                      .message = absl::StrCat("\"", target, "\" is no target"),
                      .where = "target",
                      .fix = "give cpu, cpu:x86-64-v3, cpu:x86-64-v4+avx512_bf16 or cuda:sm_90"});
  }
  if (!request_.environment().cpu().empty()) return request_.environment().cpu();
  if (std::string own = services_.pool.default_target(); !own.empty()) return own;
  return MakeError(absl::StatusCode::kUnavailable,
                   {.kind = "no_worker",
                    .message = "the client does not say what CPU it has, and no worker is there yet",
                    .where = "target",
                    .fix = "retry, or give the target in full: cpu:x86-64-v3"});
}

// --- Look up ---

v1::CompileResult CompileRequest::NeedSource() {
  v1::CompileResult result;
  result.set_result(v1::SOURCE_NEEDED);
  label_ = "source_needed";
  result.set_seconds(Seconds());
  return result;
}

absl::StatusOr<std::optional<Outcome>> CompileRequest::LookUpAlias() {
  ASSIGN_OR_RETURN(std::optional<v1::AliasRecord> alias, services_.index.FindAlias(alias_));
  if (!alias) return std::nullopt;
  ASSIGN_OR_RETURN(std::optional<v1::GenerationRecord> record, services_.index.Lookup(alias->key(), 0));
  if (!record) return std::nullopt;
  Outcome outcome;
  outcome.key = alias->key();
  outcome.result = v1::HIT;
  outcome.inputs = std::move(*alias->mutable_inputs());
  outcome.outputs = std::move(*alias->mutable_outputs());
  newest_ = std::move(record);
  return outcome;
}

absl::Status CompileRequest::CheckFailedBefore() {
  absl::Status before = services_.negative.Check(alias_);
  if (!before.ok()) label_ = "negative";
  return before;
}

// --- Coalesce, or have it compiled ---

// Of those who come at once with one digest the first is asked for the program, and the others wait for it.
absl::StatusOr<std::shared_ptr<Flight>> CompileRequest::ShareFlight() {
  if (request_.lookup_only()) return nullptr;  // who only looks waits for no compile
  label_ = "refused";
  ASSIGN_OR_RETURN(place_, services_.admission.Enter());
  std::shared_ptr<Flight> flight = services_.inflight.JoinOrPromise(alias_);
  if (flight == nullptr) place_.reset();
  label_ = "failed";
  return flight;
}

// Whoever was to bring the program has not, or its namespace has spent its quota, which is another's than this one's.
bool CompileRequest::SaysNothing(const absl::StatusOr<Outcome>& outcome) const {
  if (outcome.ok()) return outcome->result == v1::SOURCE_NEEDED;
  return absl::StartsWith(GetError(outcome.status()).kind, "quota_");
}

absl::StatusOr<std::shared_ptr<Flight>> CompileRequest::JoinFlight(std::shared_ptr<void> room, bool look_only) {
  label_ = "refused";
  ASSIGN_OR_RETURN(place_, services_.admission.Enter());
  // Those who only look must not wait for a compile, nor keep one from starting.
  auto [flight, leads] = services_.inflight.Join(look_only ? absl::StrCat("look ", alias_) : alias_);
  leads_ = leads;
  v1::CompileRequest whole = TakeProgram(request_);
  if (leads) {
    absl::StatusOr<std::shared_ptr<void>> leave;  // of its namespace
    if (!look_only) leave = services_.quotas.EnterCompile(name_space());
    if (look_only || leave.ok()) {
      StartCompile(services_, flight, std::move(whole), {std::move(room), look_only ? nullptr : *std::move(leave)},
                   alias_, target_, look_only);
    } else {
      services_.inflight.Finish(flight, leave.status());  // whoever joined in between hears it too
    }
  }
  label_ = "failed";
  return flight;
}

absl::StatusOr<Outcome> CompileRequest::Wait(const std::shared_ptr<Flight>& flight, const Caller& caller) {
  absl::StatusOr<Outcome> outcome = flight->Wait(caller.progress, caller.cancelled);
  services_.inflight.Leave(flight);
  return outcome;
}

// --- Reply ---

absl::StatusOr<v1::CompileResult> CompileRequest::Reply(Outcome outcome) {
  v1::CompileResult result;
  result.set_key(outcome.key);
  result.set_result(outcome.result);
  AddBoundary(outcome, result);
  if (outcome.result != v1::MISSING) {
    ASSIGN_OR_RETURN(v1::GenerationRecord record, SelectGeneration(outcome.key));
    if (LacksTuning(record)) return Missing(std::move(result));
    RETURN_IF_ERROR(CheckClient(record));
    for (const std::string& op : record.extern_ops()) result.add_extern_ops(op);
    if (request_.inline_blobs() && EnterReply(record)) RETURN_IF_ERROR(AddBlobs(record.manifest(), result));
    CountUse(record, outcome.result);
    *result.mutable_manifest() = std::move(*record.mutable_manifest());
  }
  label_ = absl::AsciiStrToLower(v1::Result_Name(outcome.result));
  result.set_seconds(Seconds());
  return result;
}

// Who only looks, and looks for tuned generations, is not content with a default one that could be tuned.
bool CompileRequest::LacksTuning(const v1::GenerationRecord& record) const {
  return request_.lookup_only() && request_.mode() == v1::TUNED && !record.manifest().tuned() &&
         !CannotBeTuned(services_, record.manifest().key());
}

v1::CompileResult CompileRequest::Missing(v1::CompileResult result) {
  result.set_result(v1::MISSING);
  label_ = "missing";
  result.set_seconds(Seconds());
  return result;
}

// The one that was asked for; else the one that the job has run before, so that all its ranks and restarts
// run the same kernels; else the newest, which is then the job's.
absl::StatusOr<v1::GenerationRecord> CompileRequest::SelectGeneration(const std::string& key) {
  if (request_.generation() != 0) return FindArtifact(services_.index, key, request_.generation());
  if (request_.job_id().empty()) return FindNewest(key);
  ASSIGN_OR_RETURN(std::optional<uint32_t> pinned, services_.index.pins().Find(key, request_.job_id()));
  if (pinned && newest_ && newest_->manifest().generation() == *pinned) return FindNewest(key);
  if (pinned) {
    ASSIGN_OR_RETURN(std::optional<v1::GenerationRecord> record, services_.index.Lookup(key, *pinned));
    // A job that waits for the tuned one leaves the default that it was given first.
    if (record && (request_.mode() != v1::TUNED || record->manifest().tuned())) return *std::move(record);
  }
  ASSIGN_OR_RETURN(v1::GenerationRecord record, FindNewest(key));
  RETURN_IF_ERROR(services_.index.pins().Pin(key, request_.job_id(), record.manifest().generation()));
  return record;
}

// A hit has looked it up a moment ago. Mode fast takes the newest default generation.
absl::StatusOr<v1::GenerationRecord> CompileRequest::FindNewest(const std::string& key) {
  std::optional<v1::GenerationRecord> newest = std::exchange(newest_, std::nullopt);
  if (!newest) {
    ASSIGN_OR_RETURN(newest, FindArtifact(services_.index, key, 0));
  }
  if (request_.mode() != v1::FAST || !newest->manifest().tuned()) return *std::move(newest);
  ASSIGN_OR_RETURN(std::vector<v1::GenerationRecord> all, services_.index.ServableGenerations(key));
  for (size_t i = all.size(); i-- > 0;) {
    if (!all[i].manifest().tuned()) return std::move(all[i]);
  }
  return *std::move(newest);
}

// What does not enter the key but decides whether this client can run it.
absl::Status CompileRequest::CheckClient(const v1::GenerationRecord& record) const {
  if (!request_.extern_allowed() && !record.extern_ops().empty()) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     {.kind = "extern_needs_torch",
                      .message = absl::StrCat("left to the client's torch, which it does not have: ",
                                              absl::StrJoin(record.extern_ops(), ", ")),
                      .where = "",
                      .fix = "install torch beside the client, or replace these operators"});
  }
  const v1::ClientEnvironment& client = request_.environment();
  uint32_t version = record.manifest().toolchain().plan_version();
  if (client.max_plan_version() == 0 ||
      (version >= client.min_plan_version() && version <= client.max_plan_version())) {
    return absl::OkStatus();
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      {.kind = "incompatible_client",
       .message = absl::StrCat("the artifact's plan has version ", version, ", the client's runtime takes ",
                               client.min_plan_version(), " to ", client.max_plan_version()),
       .where = "",
       .fix = "give client and server versions that are at most one apart"});
}

// Whether there is room for blobs in the reply. Without them it is as good: the client then asks for each.
bool CompileRequest::EnterReply(const v1::GenerationRecord& record) {
  absl::StatusOr<std::shared_ptr<void>> room = services_.outgoing.Enter(std::min(record.bytes(), kMostInlineBytes));
  if (room.ok()) room_ = *std::move(room);
  return room.ok();
}

absl::Status CompileRequest::AddBlobs(const v1::Manifest& manifest, v1::CompileResult& result) {
  std::set<std::string> have(request_.have_blobs().begin(), request_.have_blobs().end());
  int64_t room = kMostInlineBytes;
  absl::Status lost;
  std::vector<v1::BlobRef> needed(manifest.code().begin(), manifest.code().end());
  needed.insert(needed.begin(), manifest.plan());
  for (const v1::BlobRef& blob : needed) {
    if (have.count(blob.digest()) != 0 || blob.size_bytes() > room) continue;
    absl::StatusOr<std::string> bytes = services_.index.blobs().Read(blob.digest());
    lost.Update(bytes.status());  // and on: one compile shall replace all that is corrupt
    if (!bytes.ok()) continue;
    room -= blob.size_bytes();
    (*result.mutable_blobs())[blob.digest()] = *std::move(bytes);
  }
  return lost;
}

// Names are the request's own where it brought them along.
void CompileRequest::AddBoundary(Outcome& outcome, v1::CompileResult& result) const {
  *result.mutable_inputs() = std::move(outcome.inputs);
  *result.mutable_outputs() = std::move(outcome.outputs);
  if (!request_.source().has_program()) return;
  const v1::DebugInfo& names = request_.source().program().debug_info();
  for (int i = 0; i < result.inputs_size(); ++i) {
    result.mutable_inputs(i)->set_name(i < names.input_names_size() ? names.input_names(i) : "");
  }
  for (int i = 0; i < result.outputs_size(); ++i) {
    result.mutable_outputs(i)->set_name(i < names.output_names_size() ? names.output_names(i) : "");
  }
}

void CompileRequest::CountUse(const v1::GenerationRecord& record, v1::Result result) {
  const v1::Manifest& manifest = record.manifest();
  services_.index.uses().Record(manifest.key(), result == v1::HIT ? 1 : 0);
  if (result != v1::HIT) return;
  services_.metrics.CountSaved(name_space(), request_.job_id(), manifest.key(), CompileSeconds(manifest.seconds()));
}

}  // namespace preheat::server
