#include "client/cpp/local_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/digest.h"

namespace preheat {
namespace {

namespace fs = std::filesystem;

bool MakePrivateFolder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return true;
  if (!folder.has_parent_path() || folder.parent_path() == folder) return false;
  if (!MakePrivateFolder(folder.parent_path())) return false;
  return ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
}

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return std::nullopt;
  const std::streamoff size = in.tellg();
  if (size < 0) return std::nullopt;
  std::string bytes(static_cast<size_t>(size), '\0');
  in.seekg(0);
  if (!in.read(bytes.data(), size)) return std::nullopt;
  return bytes;
}

void WriteFile(const std::string& path, absl::string_view bytes) {
  static std::atomic<int> counter{0};
  if (!MakePrivateFolder(fs::path(path).parent_path())) return;
  const std::string aside = absl::StrCat(path, ".", ::getpid(), ".", counter.fetch_add(1), ".tmp");
  std::ofstream out(aside, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  std::error_code error;
  if (out) fs::rename(aside, path, error);
  if (!out || error) fs::remove(aside, error);
}

}  // namespace

LocalCache::LocalCache(std::string dir) : dir_(std::move(dir)) {}

std::optional<std::string> LocalCache::ReadBlob(absl::string_view digest) const {
  if (dir_.empty() || !IsDigest(digest)) return std::nullopt;
  std::optional<std::string> bytes = ReadFile(BlobPath(digest));
  if (bytes && Digest(*bytes) != digest) {
    std::error_code error;
    fs::remove(BlobPath(digest), error);
    return std::nullopt;
  }
  return bytes;
}

void LocalCache::WriteBlob(absl::string_view digest, absl::string_view bytes) const {
  if (!dir_.empty() && IsDigest(digest)) WriteFile(BlobPath(digest), bytes);
}

bool LocalCache::HasBlob(absl::string_view digest) const {
  std::error_code error;
  return !dir_.empty() && IsDigest(digest) && fs::is_regular_file(BlobPath(digest), error);
}

std::optional<v1::CompileResult> LocalCache::ReadResult(absl::string_view alias) const {
  if (dir_.empty() || !IsDigest(alias)) return std::nullopt;
  std::optional<std::string> bytes = ReadFile(ResultPath(alias));
  v1::CompileResult result;
  // The first 64 bytes are the digest of the rest: a torn or edited file is no result.
  if (!bytes || bytes->size() < 64) return std::nullopt;
  const absl::string_view body = absl::string_view(*bytes).substr(64);
  if (absl::string_view(*bytes).substr(0, 64) != Digest(body)) return std::nullopt;
  if (!result.ParseFromArray(body.data(), static_cast<int>(body.size()))) return std::nullopt;
  return result;
}

void LocalCache::WriteResult(absl::string_view alias, v1::CompileResult result) const {
  if (dir_.empty() || !IsDigest(alias)) return;
  result.clear_blobs();
  const std::string body = result.SerializeAsString();
  WriteFile(ResultPath(alias), absl::StrCat(Digest(body), body));
}

std::string LocalCache::CodeDir() const { return dir_.empty() ? "" : dir_ + "/code"; }

std::string LocalCache::BlobPath(absl::string_view digest) const {
  return absl::StrCat(dir_, "/blobs/", digest.substr(0, 2), "/", digest);
}

std::string LocalCache::ResultPath(absl::string_view alias) const { return absl::StrCat(dir_, "/results/", alias); }

std::string DefaultCacheDir() {
  for (const auto& [variable, below] :
       {std::pair{"PREHEAT_CACHE_DIR", ""}, {"XDG_CACHE_HOME", "/preheat"}, {"HOME", "/.cache/preheat"}}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return absl::StrCat(value, below);
  }
  return "";
}

}  // namespace preheat
