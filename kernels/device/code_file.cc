#include "kernels/device/code_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

namespace fs = std::filesystem;

class SharedObject : public LoadedCode {
 public:
  SharedObject(void* handle, std::string digest) : handle_(handle), digest_(std::move(digest)) {}
  ~SharedObject() override { dlclose(handle_); }

  absl::StatusOr<void*> Find(const char* symbol) const override {
    if (void* address = dlsym(handle_, symbol)) return address;
    return MakeError(absl::StatusCode::kDataLoss,
                     {.kind = "corrupt_artifact",
                      .message = absl::StrCat("code ", digest_, " has no \"", symbol, "\""),
                      .where = "",
                      .fix = "fetch the artifact again"});
  }

 private:
  void* handle_;
  std::string digest_;
};

absl::Status Corrupt(absl::string_view message) {
  return MakeError(
      absl::StatusCode::kDataLoss,
      {.kind = "corrupt_artifact", .message = std::string(message), .where = "", .fix = "fetch the artifact again"});
}

absl::Status FileError(absl::string_view what, const std::string& path) {
  return MakeError(absl::StatusCode::kUnavailable,
                   {.kind = "cache_dir",
                    .message = absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(errno)),
                    .where = "",
                    .fix = "give a cache folder on a local disk with space that this user can write"});
}

// A folder that is ours, that nobody else can write, made if missing. Code is loaded from it, so others' folders do not
// do.
bool Usable(const std::string& dir) {
  if (dir.empty()) return false;
  std::error_code ignored;
  if (const fs::path parent = fs::path(dir).parent_path(); !parent.empty()) fs::create_directories(parent, ignored);
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) return false;
  struct stat info;
  if (stat(dir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return false;
  return info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0 && access(dir.c_str(), W_OK | X_OK) == 0;
}

absl::Status CheckExecutes(const std::string& dir) {
  struct statvfs info;
  if (statvfs(dir.c_str(), &info) != 0 || (info.f_flag & ST_NOEXEC) == 0) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      {.kind = "noexec_cache_dir",
       .message = absl::StrCat("code cannot be loaded from ", dir, ": its file system is mounted noexec"),
       .where = "",
       .fix = "set PREHEAT_CACHE_DIR (or TMPDIR, for the private folder) to a folder that allows execution"});
}

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError("write", path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

// Readers see the whole file or none.
absl::Status WriteAtomically(const std::string& dir, const std::string& path, absl::string_view bytes) {
  std::string temporary = absl::StrCat(dir, "/.code-XXXXXX");
  const int fd = mkstemp(temporary.data());
  if (fd < 0) return FileError("create a file in", dir);
  absl::Status status = WriteAll(fd, bytes, temporary);
  if (status.ok() && fchmod(fd, 0700) != 0) status = FileError("change the mode of", temporary);
  close(fd);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = FileError("rename to", path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

bool Holds(const std::string& path, absl::string_view digest, size_t size) {
  std::error_code failed;
  if (fs::file_size(path, failed) != size || failed) return false;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return Digest(bytes) == digest;
}

absl::StatusOr<void*> Open(const std::string& path) {
  if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  const char* reason = dlerror();
  return Corrupt(absl::StrCat("the system does not load code of this artifact: ", reason != nullptr ? reason : path));
}

absl::StatusOr<void*> OpenInCache(const CodeImage& image, const std::string& dir) {
  RETURN_IF_ERROR(CheckExecutes(dir));
  const std::string path = absl::StrCat(dir, "/", image.digest, ".so");
  if (!Holds(path, image.digest, image.bytes.size())) RETURN_IF_ERROR(WriteAtomically(dir, path, image.bytes));
  return Open(path);
}

// The mapping keeps the file's inode, so no later file can be taken for this one.
absl::StatusOr<void*> OpenInPrivateFolder(const CodeImage& image) {
  std::error_code failed;
  fs::path base = fs::temp_directory_path(failed);
  if (failed) base = "/tmp";
  RETURN_IF_ERROR(CheckExecutes(base.string()));
  std::string dir = (base / "preheat-XXXXXX").string();
  if (mkdtemp(dir.data()) == nullptr) return FileError("create a folder in", base.string());
  absl::StatusOr<void*> handle = OpenInCache(image, dir);
  fs::remove_all(dir, failed);
  return handle;
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<const LoadedCode>, std::less<>> loaded;  // by digest
};

// Never destroyed: sessions may outlive static destructors.
Registry& TheRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const LoadedCode>> LoadSharedObject(const CodeImage& image,
                                                                   const std::string& cache_dir) {
  if (!IsDigest(image.digest) || Digest(image.bytes) != image.digest) {
    return Corrupt(absl::StrCat("code does not have the bytes of its digest ", image.digest));
  }
  Registry& registry = TheRegistry();
  const std::string digest(image.digest);
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::weak_ptr<const LoadedCode>& entry = registry.loaded[digest];
  if (std::shared_ptr<const LoadedCode> code = entry.lock()) return code;
  ASSIGN_OR_RETURN(void* handle, Usable(cache_dir) ? OpenInCache(image, cache_dir) : OpenInPrivateFolder(image));
  auto code = std::make_shared<const SharedObject>(handle, digest);
  entry = code;
  return std::shared_ptr<const LoadedCode>(code);
}

}  // namespace preheat
