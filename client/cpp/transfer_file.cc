#include "client/cpp/transfer_file.h"

#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

constexpr std::streamsize kPiece = 1 << 20;

absl::Status CannotWrite(const std::string& path) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "unwritable_file",
                                                        .message = absl::StrCat("cannot write ", path),
                                                        .where = path,
                                                        .fix = "check its folder, its permissions and free space"});
}

}  // namespace

absl::StatusOr<int64_t> DownloadFile(const std::string& path, const std::function<void(int64_t)>& progress,
                                     const std::function<absl::Status(const ChunkFn&)>& fill) {
  const std::string part = path + ".part";
  std::ofstream file;
  int64_t bytes = 0;
  absl::Status filled = fill([&](const std::string* piece) {
    if (piece == nullptr) {
      file = std::ofstream(part, std::ios::binary | std::ios::trunc);
      bytes = 0;
      return file ? absl::OkStatus() : CannotWrite(part);
    }
    bytes += static_cast<int64_t>(piece->size());
    if (!file.write(piece->data(), static_cast<std::streamsize>(piece->size()))) return CannotWrite(part);
    if (progress) progress(bytes);
    return absl::OkStatus();
  });
  file.close();
  if (filled.ok() && !file) filled = CannotWrite(part);
  std::error_code error;
  if (filled.ok()) std::filesystem::rename(part, path, error);
  if (filled.ok() && error) filled = CannotWrite(path);
  if (!filled.ok()) std::filesystem::remove(part, error);
  RETURN_IF_ERROR(filled);
  return bytes;
}

absl::StatusOr<UploadFile> UploadFile::Open(const std::string& path) {
  UploadFile file(path);
  if (file.file_ && !std::filesystem::is_directory(path)) return file;
  return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "no_such_file",
                                                        .message = absl::StrCat("cannot read ", path),
                                                        .where = path,
                                                        .fix = "give the path of a file that exists"});
}

bool UploadFile::Next(std::string& piece) {
  piece.resize(kPiece);
  file_.read(piece.data(), kPiece);
  piece.resize(static_cast<size_t>(file_.gcount()));
  return !piece.empty();
}

absl::Status UploadFile::Failure() const {
  return MakeError(absl::StatusCode::kInvalidArgument, {.kind = "unreadable_file",
                                                        .message = absl::StrCat("reading ", path_, " failed"),
                                                        .where = path_,
                                                        .fix = "copy the file again"});
}

}  // namespace preheat
