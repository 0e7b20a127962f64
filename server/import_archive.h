#ifndef PREHEAT_SERVER_IMPORT_ARCHIVE_H_
#define PREHEAT_SERVER_IMPORT_ARCHIVE_H_

#include <functional>
#include <optional>
#include <string>

#include "cache/archive.h"

namespace preheat::server {

// Gathers an archive from `next` (nothing: the end) in a file of `spool_folder`, so that memory stays small and nothing
// is imported before all of it was checked. Errors as of cache::ReadArchive, and UNAVAILABLE "store_failed" when the
// disk is full. The file is gone when it returns.
absl::StatusOr<cache::Imported> ImportArchive(cache::ArtifactIndex& index, const std::string& spool_folder,
                                              const std::function<std::optional<std::string>()>& next);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_IMPORT_ARCHIVE_H_
