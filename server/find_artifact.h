#ifndef PREHEAT_SERVER_FIND_ARTIFACT_H_
#define PREHEAT_SERVER_FIND_ARTIFACT_H_

#include <string>

#include "cache/artifact_index.h"

namespace preheat::server {

// A generation by key (0: the newest that can be served), for requests that name one. INVALID_ARGUMENT "not_a_key",
// NOT_FOUND "unknown_key" or "unknown_generation".
absl::StatusOr<v1::GenerationRecord> FindArtifact(cache::ArtifactIndex& index, const std::string& key,
                                                  uint32_t generation);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_FIND_ARTIFACT_H_
