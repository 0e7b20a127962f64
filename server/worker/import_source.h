#ifndef PREHEAT_SERVER_WORKER_IMPORT_SOURCE_H_
#define PREHEAT_SERVER_WORKER_IMPORT_SOURCE_H_

#include "absl/status/statusor.h"
#include "compiler/capture/aten_program.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat::worker {

// Hands the source to its importer. UNIMPLEMENTED "unsupported_source" for the kinds that have none yet (TorchScript,
// HLO); otherwise what the importer says.
absl::StatusOr<capture::AtenProgram> ImportSource(const v1::Source& source);

}  // namespace preheat::worker

#endif  // PREHEAT_SERVER_WORKER_IMPORT_SOURCE_H_
