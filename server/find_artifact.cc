#include "server/find_artifact.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::server {

absl::StatusOr<v1::GenerationRecord> FindArtifact(cache::ArtifactIndex& index, const std::string& key,
                                                  uint32_t generation) {
  if (!IsDigest(key)) {
    return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "not_a_key",
                                                          .message = "a key is 64 lower-case hexadecimal digits",
                                                          .where = key.substr(0, 80),
                                                          .fix = "`compilectl ls` shows the keys"});
  }
  ASSIGN_OR_RETURN(std::optional<v1::GenerationRecord> record, index.Lookup(key, generation));
  if (record) return *std::move(record);
  if (generation != 0) {
    return MakeError(absl::StatusCode::kNotFound,
                     {.kind = "unknown_generation",
                      .message = absl::StrCat("no generation ", generation, " that can be served"),
                      .where = key,
                      .fix = "leave the generation out for the newest one"});
  }
  return MakeError(absl::StatusCode::kNotFound, {.kind = "unknown_key",
                                                 .message = "no artifact with this key",
                                                 .where = key,
                                                 .fix = "`compilectl ls` shows what is there"});
}

}  // namespace preheat::server
