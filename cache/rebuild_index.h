#ifndef PREHEAT_CACHE_REBUILD_INDEX_H_
#define PREHEAT_CACHE_REBUILD_INDEX_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cache/store.h"
#include "proto/preheat/v1/artifact.pb.h"
#include "proto/preheat/v1/store.pb.h"

namespace preheat::cache {

// Whether these bytes are a manifest as the index writes them: with its key, its number and its plan.
bool IsManifest(absl::string_view bytes);

// The record of a generation, from its manifest alone; `report` holds the bytes of its fusion report, if they are
// known.
v1::GenerationRecord RecordOf(const v1::Manifest& manifest, const std::string* report);

// Makes the generations that these manifests (digests of blobs) describe and that have no record. Returns how many.
absl::StatusOr<int64_t> RemakeGenerations(Store& store, const std::vector<std::string>& manifests);

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_REBUILD_INDEX_H_
