#ifndef PREHEAT_CACHE_ARCHIVE_H_
#define PREHEAT_CACHE_ARCHIVE_H_

#include <functional>
#include <string>
#include <vector>

#include "cache/artifact_index.h"

namespace preheat::cache {

// Generations and their blobs in one file, to carry them from one cluster to another.
//
// The file is "PREHEAT ARCHIVE 1\n" and records of a type (1 byte), a length (8 bytes, little-endian) and that many
// bytes: 'b' a blob; 'g' an ArchivedGeneration whose blobs all stand before it, each once in the file; last of all 'z',
// the SHA-256 (32 bytes) of everything before this record. Numbers of types are forever.

// Hands the archive to `sink` piece by piece, of at most 1 MiB each; holds one blob in memory at a time. With no keys,
// of all. What cannot be served is left out. NOT_FOUND "unknown_key"; errors of the sink.
absl::Status WriteArchive(ArtifactIndex& index, const std::vector<std::string>& keys,
                          const std::function<absl::Status(absl::string_view)>& sink);

struct Imported {
  int64_t generations = 0;  // that were not there
  int64_t blobs = 0;        // that were not there
};

// Checks the whole file, then adopts its generations one by one, each in whole; one blob in memory at a time in the
// first pass, one generation in the second. A generation that is there already, with other evidence perhaps, is left as
// it is. INVALID_ARGUMENT "bad_archive" when something in it is not as above: then nothing was imported.
absl::StatusOr<Imported> ReadArchive(ArtifactIndex& index, const std::string& path);

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_ARCHIVE_H_
