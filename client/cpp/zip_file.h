#ifndef PREHEAT_CLIENT_CPP_ZIP_FILE_H_
#define PREHEAT_CLIENT_CPP_ZIP_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace preheat {

// A zip archive that is only read. Not thread-safe.
class ZipFile {
 public:
  // INVALID_ARGUMENT "no_such_file", "not_an_archive", "archive_too_large" (more than 65,536 entries).
  static absl::StatusOr<ZipFile> Open(const std::string& path);

  const std::vector<std::string>& names() const { return names_; }
  bool Has(absl::string_view name) const;

  // The whole entry, checked against its CRC. INVALID_ARGUMENT "malformed_archive" when it is absent or damaged,
  // "archive_too_large" when it claims more than `limit_bytes`.
  absl::StatusOr<std::string> Read(const std::string& name, uint64_t limit_bytes) const;

 private:
  struct Closer {
    void operator()(void* zip) const;
  };
  std::unique_ptr<void, Closer> zip_;
  std::string path_;
  std::vector<std::string> names_;
};

}  // namespace preheat

#endif  // PREHEAT_CLIENT_CPP_ZIP_FILE_H_
