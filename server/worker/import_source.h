#ifndef PREHEAT_SERVER_WORKER_IMPORT_SOURCE_H_
#define PREHEAT_SERVER_WORKER_IMPORT_SOURCE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/capture/aten_program.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat::worker {

// Hands the source to its importer. UNIMPLEMENTED "unsupported_source" for the kinds that have none (HLO; TorchScript
// in a build without torch); otherwise what the importer says. Values of dimensions that the importer has used already,
// as TorchScript's does, are taken out of `dims`.
absl::StatusOr<capture::AtenProgram> ImportSource(const v1::Source& source, std::map<std::string, int64_t>& dims);

}  // namespace preheat::worker

#endif  // PREHEAT_SERVER_WORKER_IMPORT_SOURCE_H_
