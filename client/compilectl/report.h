#ifndef PREHEAT_CLIENT_COMPILECTL_REPORT_H_
#define PREHEAT_CLIENT_COMPILECTL_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/compilectl/command.h"
#include "proto/preheat/v1/artifact.pb.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat::cli {

// How messages read in documents: the fields that interface.md promises.

// null for what is not finite.
Json Number(double value);
// null for 0 as well: "not measured" on the wire.
Json Measured(double value);
// "2026-11-29T16:20:08Z"; null for 0.
Json Time(int64_t unix_ms);

Json ErrorObject(const absl::Status& status);       // {"code", "kind", "message", "where", "fix"}, "request_id" if any
std::string ErrorText(const absl::Status& status);  // for people, several lines

const char* ResultName(v1::Result result);         // "hit"
const char* StateName(v1::Evidence::State state);  // "pending"
int64_t TotalBytes(const v1::Manifest& manifest);  // of all blobs, each once

// {"key", "result", "seconds", "generation", "tuned", "target", "bytes"}
Json CompileObject(const v1::CompileResult& result, double seconds);
Json ExplainObject(const v1::ExplainReply& reply);
Json StageObject(const v1::StageSeconds& seconds);
Json EvidenceObject(const v1::Evidence& evidence);  // {"rel_error", "eager_rel_error", "outputs"}
Json ManifestObject(const v1::Manifest& manifest);

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_REPORT_H_
