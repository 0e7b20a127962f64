#ifndef PREHEAT_SERVER_WORKER_ARTIFACT_BLOBS_H_
#define PREHEAT_SERVER_WORKER_ARTIFACT_BLOBS_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/capture/aten_program.h"
#include "compiler/compile.h"
#include "proto/preheat/v1/pool.pb.h"

namespace preheat::worker {

// What a task hands in: the bytes, and what the manifest calls them.
v1::BlobRef AddBlob(std::string bytes, v1::TaskDone& done);

// The artifact's own blobs and times; `report` is what `explain` shows. Blobs and times that the manifest had are
// replaced.
void AddArtifact(Artifact artifact, const v1::FusionReport& report, v1::TaskDone& done);

// What a task was handed: DATA_LOSS "corrupt_artifact" for a blob that is not there or not as it was stored, or is no
// program.
absl::StatusOr<std::string> BlobOf(const google::protobuf::Map<std::string, std::string>& blobs,
                                   const v1::BlobRef& ref);
absl::StatusOr<capture::AtenProgram> ReadProgram(const google::protobuf::Map<std::string, std::string>& blobs,
                                                 const v1::BlobRef& ref);

}  // namespace preheat::worker

#endif  // PREHEAT_SERVER_WORKER_ARTIFACT_BLOBS_H_
