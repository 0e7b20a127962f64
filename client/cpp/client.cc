#include "client/cpp/client.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <atomic>
#include <cstdlib>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/ask_by_digest.h"
#include "client/cpp/connection.h"
#include "client/cpp/environment.h"
#include "client/cpp/local_cache.h"
#include "client/cpp/rpc_status.h"
#include "client/cpp/transfer_file.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "proto/source_digest.h"

namespace preheat {
namespace {

constexpr int64_t kMaxBlobBytes = int64_t{4} << 30;

void FillFrom(std::string& field, std::initializer_list<const char*> variables, const char* otherwise = "") {
  for (const char* variable : variables) {
    if (!field.empty()) return;
    if (const char* value = std::getenv(variable)) field = value;
  }
  if (field.empty()) field = otherwise;
}

ClientOptions WithEnvironment(ClientOptions options) {
  FillFrom(options.server, {"PREHEAT_SERVER"}, "localhost:7433");
  FillFrom(options.token_file, {"PREHEAT_TOKEN_FILE"});
  FillFrom(options.tls_ca, {"PREHEAT_TLS_CA"});
  FillFrom(options.tls_cert, {"PREHEAT_TLS_CERT"});
  FillFrom(options.tls_key, {"PREHEAT_TLS_KEY"});
  FillFrom(options.name_space, {"PREHEAT_NAMESPACE"});
  FillFrom(options.job_id, {"PREHEAT_JOB_ID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"});
  if (options.cache_dir.empty()) options.cache_dir = DefaultCacheDir();
  return options;
}

// What the answer depends on, of this client's side: the request without names, its source by digest.
std::string Alias(v1::CompileRequest request) {
  request.clear_name();
  request.clear_job_id();
  request.clear_have_blobs();
  request.clear_inline_blobs();
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    request.SerializeToCodedStream(&coded);
  }
  return Digest(bytes);
}

std::vector<v1::BlobRef> NeededToRun(const v1::Manifest& manifest) {
  std::vector<v1::BlobRef> blobs = {manifest.plan()};
  blobs.insert(blobs.end(), manifest.code().begin(), manifest.code().end());
  return blobs;
}

}  // namespace

class Client::Impl {
 public:
  explicit Impl(ClientOptions options)
      : options_(WithEnvironment(std::move(options))),
        connection_(options_),
        cache_(options_.cache_dir),
        environment_(HostEnvironment()) {}

  const ClientOptions& options() const { return options_; }
  Connection& connection() { return connection_; }
  const LocalCache& cache() const { return cache_; }

  v1::CompileRequest MakeRequest(const v1::Source& source, const RequestOptions& options) const;
  absl::StatusOr<v1::CompileResult> Request(v1::CompileRequest request, const ProgressFn& progress);
  absl::StatusOr<std::string> ReadBlob(const v1::BlobRef& blob);

 private:
  absl::StatusOr<v1::CompileResult> Ask(const v1::CompileRequest& request, const v1::CompileRequest& by_digest,
                                        const ProgressFn& progress);
  absl::StatusOr<v1::CompileResult> Send(const v1::CompileRequest& request, const ProgressFn& progress);
  std::optional<v1::CompileResult> FromCache(const std::string& alias) const;
  void CountLocalHit(const std::string& key);
  void ReportLocalHits();

  const ClientOptions options_;
  Connection connection_;
  const LocalCache cache_;
  const v1::ClientEnvironment environment_;
  std::atomic<bool> sends_sources_{false};  // the server knows no digests
  std::mutex mutex_;
  v1::LocalHits local_hits_;  // guarded by mutex_; not reported yet
};

v1::CompileRequest Client::Impl::MakeRequest(const v1::Source& source, const RequestOptions& options) const {
  v1::CompileRequest request;
  *request.mutable_source() = source;
  request.mutable_dims()->insert(options.dims.begin(), options.dims.end());
  request.set_target(options.target);
  request.set_mode(options.mode);
  request.mutable_exclude()->Assign(options.exclude.begin(), options.exclude.end());
  request.set_freeze(options.freeze);
  *request.mutable_environment() = environment_;
  request.set_name_space(options_.name_space);
  request.set_job_id(options_.job_id);
  request.set_name(options.name);
  request.set_generation(options.generation);
  request.set_extern_allowed(options.extern_allowed);
  request.set_lookup_only(options.lookup_only);
  return request;
}

absl::StatusOr<v1::CompileResult> Client::Impl::Request(v1::CompileRequest request, const ProgressFn& progress) {
  v1::CompileRequest by_digest = ByDigest(request, SourceDigest(*request.mutable_source()));
  const std::string alias = Alias(by_digest);
  if (request.inline_blobs()) {
    for (const v1::BlobRef& blob : NeededToRun(cache_.ReadResult(alias).value_or(v1::CompileResult()).manifest())) {
      if (cache_.HasBlob(blob.digest())) request.add_have_blobs(blob.digest());
    }
    *by_digest.mutable_have_blobs() = request.have_blobs();
  }
  absl::StatusOr<v1::CompileResult> result = Ask(request, by_digest, progress);
  if (absl::IsUnavailable(result.status()) && options_.offline && !request.lookup_only()) {
    if (std::optional<v1::CompileResult> kept = FromCache(alias)) {
      CountLocalHit(kept->key());
      return *std::move(kept);
    }
  }
  if (!result.ok()) return result;
  ReportLocalHits();
  for (const auto& [digest, bytes] : result->blobs()) {
    if (Digest(bytes) == digest) cache_.WriteBlob(digest, bytes);
  }
  if (result->result() != v1::MISSING) cache_.WriteResult(alias, *result);
  return result;
}

absl::StatusOr<v1::CompileResult> Client::Impl::Ask(const v1::CompileRequest& request,
                                                    const v1::CompileRequest& by_digest, const ProgressFn& progress) {
  if (sends_sources_ || !IsLarge(request.source())) return Send(request, progress);
  absl::StatusOr<v1::CompileResult> result = Send(by_digest, progress);
  const Need need = NeedAfter(result.status(), result.ok() ? result->result() : v1::RESULT_UNSPECIFIED);
  if (need == Need::kSourceEverywhere) sends_sources_ = true;
  if (need != Need::kNothing) return Send(request, progress);
  if (result.ok()) NameBoundary(request.source(), *result);
  return result;
}

absl::StatusOr<v1::CompileResult> Client::Impl::Send(const v1::CompileRequest& request, const ProgressFn& progress) {
  v1::CompileResult result;
  RETURN_IF_ERROR(connection_.Call([&](grpc::ClientContext& context) {
    auto stream = connection_.compiler().Compile(&context, request);
    bool done = false;
    absl::Status failed;
    v1::CompileEvent event;
    while (stream->Read(&event)) {
      if (event.has_progress() && progress) progress(event.progress());
      if (event.has_error()) failed = FromWire(event.error());
      if (event.has_done()) {
        result = std::move(*event.mutable_done());
        done = true;
      }
    }
    const absl::Status ended = connection_.ToStatus(stream->Finish());
    if (!failed.ok()) return ended.ok() ? failed : ended;  // the status says when to ask again, too
    if (done || !ended.ok()) return done ? absl::OkStatus() : ended;
    return MakeError(absl::StatusCode::kUnavailable, {.kind = "no_answer",
                                                      .message = "the server ended the stream without an answer",
                                                      .where = options_.server,
                                                      .fix = "ask again"});
  }));
  return result;
}

// Complete or absent: a result whose bytes are gone would only fail later.
std::optional<v1::CompileResult> Client::Impl::FromCache(const std::string& alias) const {
  std::optional<v1::CompileResult> result = cache_.ReadResult(alias);
  if (!result) return std::nullopt;
  for (const v1::BlobRef& blob : NeededToRun(result->manifest())) {
    if (!cache_.HasBlob(blob.digest())) return std::nullopt;
  }
  result->set_result(v1::HIT);
  result->set_seconds(0);
  return result;
}

void Client::Impl::CountLocalHit(const std::string& key) {
  std::lock_guard lock(mutex_);
  ++(*local_hits_.mutable_hits())[key];
}

void Client::Impl::ReportLocalHits() {
  v1::LocalHits hits;
  {
    std::lock_guard lock(mutex_);
    if (local_hits_.hits().empty()) return;
    hits.Swap(&local_hits_);
  }
  hits.set_name_space(options_.name_space);
  hits.set_job_id(options_.job_id);
  v1::LocalHitsReply reply;
  // Statistics: what is lost here is lost.
  connection_.Unary(connection_.compiler(), &v1::Compiler::Stub::ReportLocalHits, hits, &reply).IgnoreError();
}

absl::StatusOr<std::string> Client::Impl::ReadBlob(const v1::BlobRef& blob) {
  if (std::optional<std::string> kept = cache_.ReadBlob(blob.digest())) return *std::move(kept);
  v1::ReadBlobRequest request;
  request.set_digest(blob.digest());
  std::string bytes;
  RETURN_IF_ERROR(connection_.Call([&](grpc::ClientContext& context) {
    bytes.clear();
    auto stream = connection_.cache().ReadBlob(&context, request);
    v1::BlobChunk chunk;
    while (stream->Read(&chunk)) {
      // An announced size is a promise; without one, only the general bound holds.
      if (static_cast<int64_t>(bytes.size() + chunk.data().size()) >
          (blob.size_bytes() > 0 ? blob.size_bytes() : kMaxBlobBytes)) {
        context.TryCancel();
        break;
      }
      bytes += chunk.data();
    }
    const grpc::Status ended = stream->Finish();
    return ended.error_code() == grpc::StatusCode::CANCELLED ? absl::OkStatus() : connection_.ToStatus(ended);
  }));
  if (Digest(bytes) != blob.digest()) {
    return MakeError(absl::StatusCode::kDataLoss,
                     {.kind = "corrupt_blob",
                      .message = absl::StrCat("the server's bytes are not those of ", blob.digest()),
                      .where = options_.server,
                      .fix = "ask again: the server checks its copy and compiles anew"});
  }
  cache_.WriteBlob(blob.digest(), bytes);
  return bytes;
}

Client::Client(ClientOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {}

const ClientOptions& Client::options() const { return impl_->options(); }

v1::CompileRequest Client::MakeRequest(const v1::Source& source, const RequestOptions& options) const {
  return impl_->MakeRequest(source, options);
}

absl::StatusOr<Executable> Client::Compile(const v1::Program& program, const RequestOptions& options) {
  v1::Source source;
  *source.mutable_program() = program;
  return Compile(source, options);
}

absl::StatusOr<Executable> Client::Compile(const v1::Source& source, const RequestOptions& options,
                                           const ProgressFn& progress) {
  v1::CompileRequest request = impl_->MakeRequest(source, options);
  request.set_inline_blobs(true);
  ASSIGN_OR_RETURN(v1::CompileResult result, impl_->Request(std::move(request), progress));
  return Load(std::move(result));
}

absl::StatusOr<v1::CompileResult> Client::Request(const v1::Source& source, const RequestOptions& options,
                                                  const ProgressFn& progress) {
  return impl_->Request(impl_->MakeRequest(source, options), progress);
}

absl::StatusOr<Executable> Client::Load(v1::CompileResult result) {
  std::map<std::string, std::string> blobs;
  for (const v1::BlobRef& blob : NeededToRun(result.manifest())) {
    const auto it = result.blobs().find(blob.digest());
    if (it != result.blobs().end() && Digest(it->second) == blob.digest()) {
      blobs[blob.digest()] = it->second;
    } else {
      ASSIGN_OR_RETURN(blobs[blob.digest()], ReadBlob(blob));
    }
  }
  result.clear_blobs();
  return Executable::Load(std::move(result), blobs, impl_->cache().CodeDir(), options().threads);
}

absl::StatusOr<std::string> Client::ReadBlob(const v1::BlobRef& blob) { return impl_->ReadBlob(blob); }

absl::StatusOr<v1::LookupReply> Client::Lookup(v1::LookupRequest request) {
  request.set_name_space(options().name_space);
  request.set_job_id(options().job_id);
  v1::LookupReply reply;
  RETURN_IF_ERROR(
      impl_->connection().Unary(impl_->connection().compiler(), &v1::Compiler::Stub::Lookup, request, &reply));
  return reply;
}

absl::StatusOr<v1::ExplainReply> Client::Explain(const v1::ExplainRequest& request) {
  v1::ExplainReply reply;
  RETURN_IF_ERROR(
      impl_->connection().Unary(impl_->connection().compiler(), &v1::Compiler::Stub::Explain, request, &reply));
  return reply;
}

absl::StatusOr<v1::VerifyReply> Client::Verify(const v1::VerifyRequest& request) {
  v1::VerifyReply reply;
  RETURN_IF_ERROR(
      impl_->connection().Unary(impl_->connection().compiler(), &v1::Compiler::Stub::Verify, request, &reply));
  return reply;
}

absl::StatusOr<v1::WhyMissReply> Client::WhyMiss(const v1::CompileRequest& request) {
  v1::WhyMissReply reply;
  RETURN_IF_ERROR(
      impl_->connection().Unary(impl_->connection().compiler(), &v1::Compiler::Stub::WhyMiss, request, &reply));
  return reply;
}

absl::StatusOr<v1::StatsReply> Client::Stats() {
  v1::StatsReply reply;
  RETURN_IF_ERROR(impl_->connection().Unary(impl_->connection().compiler(), &v1::Compiler::Stub::Stats,
                                            v1::StatsRequest(), &reply));
  return reply;
}

absl::StatusOr<v1::ListReply> Client::List(const std::string& key_prefix) {
  v1::ListRequest request;
  request.set_name_space(options().name_space);
  request.set_key_prefix(key_prefix);
  v1::ListReply reply;
  RETURN_IF_ERROR(impl_->connection().Unary(impl_->connection().cache(), &v1::Cache::Stub::List, request, &reply));
  return reply;
}

absl::Status Client::Pin(const std::string& key, uint32_t generation) {
  v1::PinRequest request;
  request.set_key(key);
  request.set_job_id(options().job_id);
  request.set_generation(generation);
  v1::PinReply reply;
  return impl_->connection().Unary(impl_->connection().cache(), &v1::Cache::Stub::Pin, request, &reply);
}

absl::Status Client::Unpin(const std::string& key) {
  v1::PinRequest request;
  request.set_key(key);
  request.set_job_id(options().job_id);
  v1::PinReply reply;
  return impl_->connection().Unary(impl_->connection().cache(), &v1::Cache::Stub::Unpin, request, &reply);
}

absl::StatusOr<v1::RemoveReply> Client::Remove(const v1::RemoveRequest& request) {
  v1::RemoveReply reply;
  RETURN_IF_ERROR(impl_->connection().Unary(impl_->connection().cache(), &v1::Cache::Stub::Remove, request, &reply));
  return reply;
}

absl::StatusOr<v1::CollectGarbageReply> Client::CollectGarbage(bool dry_run) {
  v1::CollectGarbageRequest request;
  request.set_dry_run(dry_run);
  v1::CollectGarbageReply reply;
  RETURN_IF_ERROR(
      impl_->connection().Unary(impl_->connection().cache(), &v1::Cache::Stub::CollectGarbage, request, &reply));
  return reply;
}

absl::StatusOr<v1::ListWorkersReply> Client::ListWorkers() {
  v1::ListWorkersReply reply;
  RETURN_IF_ERROR(impl_->connection().Unary(impl_->connection().pool(), &v1::Pool::Stub::ListWorkers,
                                            v1::ListWorkersRequest(), &reply));
  return reply;
}

absl::StatusOr<int64_t> Client::Export(const std::vector<std::string>& keys, const std::string& path,
                                       const BytesFn& progress) {
  v1::ExportRequest request;
  request.mutable_keys()->Assign(keys.begin(), keys.end());
  return DownloadFile(path, progress, [&](const ChunkFn& keep) {
    return impl_->connection().Call([&](grpc::ClientContext& context) {
      RETURN_IF_ERROR(keep(nullptr));
      auto stream = impl_->connection().cache().Export(&context, request);
      v1::BlobChunk chunk;
      absl::Status kept;
      while (kept.ok() && stream->Read(&chunk)) kept = keep(&chunk.data());
      if (!kept.ok()) context.TryCancel();
      const grpc::Status ended = stream->Finish();
      return kept.ok() ? impl_->connection().ToStatus(ended) : kept;
    });
  });
}

absl::StatusOr<v1::ImportReply> Client::Import(const std::string& path, const BytesFn& progress) {
  v1::ImportReply reply;
  RETURN_IF_ERROR(impl_->connection().Call([&](grpc::ClientContext& context) -> absl::Status {
    ASSIGN_OR_RETURN(UploadFile file, UploadFile::Open(path));
    auto stream = impl_->connection().cache().Import(&context, &reply);
    v1::BlobChunk chunk;
    for (int64_t sent = 0; file.Next(*chunk.mutable_data()) && stream->Write(chunk);) {
      sent += static_cast<int64_t>(chunk.data().size());
      if (progress) progress(sent);
    }
    stream->WritesDone();
    const grpc::Status ended = stream->Finish();
    return file.failed() ? file.Failure() : impl_->connection().ToStatus(ended);
  }));
  return reply;
}

}  // namespace preheat
