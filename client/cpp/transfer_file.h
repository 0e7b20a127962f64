#ifndef PREHEAT_CLIENT_CPP_TRANSFER_FILE_H_
#define PREHEAT_CLIENT_CPP_TRANSFER_FILE_H_

#include <cstdint>
#include <fstream>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace preheat {

// Keeps one more piece; null starts over.
using ChunkFn = std::function<absl::Status(const std::string*)>;

// Lets `fill` write a file piece by piece; it appears under its name only when `fill` has succeeded. Returns its size.
// Errors of `fill`, and INVALID_ARGUMENT "unwritable_file".
absl::StatusOr<int64_t> DownloadFile(const std::string& path, const std::function<void(int64_t)>& progress,
                                     const std::function<absl::Status(const ChunkFn&)>& fill);

// A file in pieces of at most 1 MiB.
class UploadFile {
 public:
  // INVALID_ARGUMENT "no_such_file".
  static absl::StatusOr<UploadFile> Open(const std::string& path);

  bool Next(std::string& piece);  // false at the end, or when reading fails
  bool failed() const { return file_.bad(); }
  absl::Status Failure() const;

 private:
  explicit UploadFile(const std::string& path) : path_(path), file_(path, std::ios::binary) {}

  std::string path_;
  std::ifstream file_;
};

}  // namespace preheat

#endif  // PREHEAT_CLIENT_CPP_TRANSFER_FILE_H_
