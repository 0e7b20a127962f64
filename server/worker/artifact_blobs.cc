#include "server/worker/artifact_blobs.h"

#include <utility>

#include "compiler/capture/program_proto.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::worker {

v1::BlobRef AddBlob(std::string bytes, v1::TaskDone& done) {
  v1::BlobRef ref;
  ref.set_digest(Digest(bytes));
  ref.set_size_bytes(static_cast<int64_t>(bytes.size()));
  (*done.mutable_blobs())[ref.digest()] = std::move(bytes);
  return ref;
}

void AddArtifact(Artifact artifact, const v1::FusionReport& report, v1::TaskDone& done) {
  v1::Manifest& manifest = *done.mutable_manifest();
  manifest.clear_code();
  *manifest.mutable_plan() = AddBlob(std::move(artifact.plan), done);
  for (auto& [digest, bytes] : artifact.code) *manifest.add_code() = AddBlob(std::move(bytes), done);
  *manifest.mutable_source() = AddBlob(std::move(artifact.source), done);
  *manifest.mutable_report() = AddBlob(report.SerializeAsString(), done);
  manifest.mutable_seconds()->set_passes(artifact.passes_seconds);
  manifest.mutable_seconds()->set_codegen(artifact.codegen_seconds);
  manifest.mutable_seconds()->set_compile(artifact.compile_seconds);
  for (const auto& [op, entry] : artifact.report.extern_calls) done.add_extern_ops(op);
}

absl::StatusOr<std::string> BlobOf(const google::protobuf::Map<std::string, std::string>& blobs,
                                   const v1::BlobRef& ref) {
  auto found = blobs.find(ref.digest());
  if (found != blobs.end() && Digest(found->second) == ref.digest()) return found->second;
  return MakeError(absl::StatusCode::kDataLoss, {.kind = "corrupt_artifact",
                                                 .message = "a blob did not come as it was stored",
                                                 .where = ref.digest(),
                                                 .fix = "`compilectl rm` lets it be compiled anew"});
}

absl::StatusOr<capture::AtenProgram> ReadProgram(const google::protobuf::Map<std::string, std::string>& blobs,
                                                 const v1::BlobRef& ref) {
  ASSIGN_OR_RETURN(std::string bytes, BlobOf(blobs, ref));
  v1::Program proto;
  if (!proto.ParseFromString(bytes)) {
    return MakeError(absl::StatusCode::kDataLoss, {.kind = "corrupt_artifact",
                                                   .message = "the program cannot be read",
                                                   .where = "",
                                                   .fix = "`compilectl rm` lets it be compiled anew"});
  }
  return capture::FromProto(proto);
}

}  // namespace preheat::worker
