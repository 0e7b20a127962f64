#include "server/import_archive.h"

#include <atomic>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::server {
namespace {

// Removed with the object that owns it.
class SpoolFile {
 public:
  explicit SpoolFile(const std::string& folder) {
    static std::atomic<int> number = 0;
    std::filesystem::create_directories(folder, ignored_);
    path_ = absl::StrCat(folder, "/import-", ++number);
  }
  ~SpoolFile() { std::filesystem::remove(path_, ignored_); }
  SpoolFile(const SpoolFile&) = delete;
  SpoolFile& operator=(const SpoolFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::error_code ignored_;
};

absl::Status Fill(const std::string& path, const std::function<std::optional<std::string>()>& next) {
  std::ofstream file(path, std::ios::binary);
  while (std::optional<std::string> bytes = next()) {
    if (!file.write(bytes->data(), static_cast<std::streamsize>(bytes->size()))) break;
  }
  file.close();
  if (file) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnavailable, {.kind = "store_failed",
                                                    .message = "the archive cannot be written to the server's disk",
                                                    .where = path,
                                                    .fix = "free space: an import needs the archive's size twice"});
}

}  // namespace

absl::StatusOr<cache::Imported> ImportArchive(cache::ArtifactIndex& index, const std::string& spool_folder,
                                              const std::function<std::optional<std::string>()>& next) {
  SpoolFile spool(spool_folder);
  RETURN_IF_ERROR(Fill(spool.path(), next));
  return cache::ReadArchive(index, spool.path());
}

}  // namespace preheat::server
