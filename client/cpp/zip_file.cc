#include "client/cpp/zip_file.h"

#include <zip.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"

namespace preheat {
namespace {

constexpr zip_int64_t kMaxEntries = 65536;

absl::Status Invalid(std::string kind, std::string message, std::string where, std::string fix = "") {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = std::move(kind), .message = std::move(message), .where = std::move(where), .fix = std::move(fix)});
}

}  // namespace

void ZipFile::Closer::operator()(void* zip) const { zip_discard(static_cast<zip_t*>(zip)); }

absl::StatusOr<ZipFile> ZipFile::Open(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return Invalid("no_such_file", absl::StrCat("there is no file ", path), path);
  }
  int code = 0;
  zip_t* zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (zip == nullptr) {
    return Invalid("not_an_archive", absl::StrCat(path, " is no zip archive, which a .pt2 file is"), path,
                   "write it with torch.export.save or preheat.export");
  }
  ZipFile file;
  file.zip_.reset(zip);
  file.path_ = path;
  const zip_int64_t entries = zip_get_num_entries(zip, 0);
  if (entries > kMaxEntries)
    return Invalid("archive_too_large", absl::StrCat(path, " has ", entries, " entries, more than ", kMaxEntries),
                   path);
  for (zip_int64_t i = 0; i < entries; ++i) {
    const char* name = zip_get_name(zip, static_cast<zip_uint64_t>(i), 0);
    if (name != nullptr) file.names_.emplace_back(name);
  }
  return file;
}

bool ZipFile::Has(absl::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

absl::StatusOr<std::string> ZipFile::Read(const std::string& name, uint64_t limit_bytes) const {
  auto* zip = static_cast<zip_t*>(zip_.get());
  const std::string where = absl::StrCat(path_, "!", name);
  zip_stat_t stat;
  if (zip_stat(zip, name.c_str(), 0, &stat) != 0 || (stat.valid & ZIP_STAT_SIZE) == 0) {
    return Invalid("malformed_archive", absl::StrCat(path_, " lacks ", name), where);
  }
  if (stat.size > limit_bytes) {
    return Invalid("archive_too_large", absl::StrCat(name, " claims ", stat.size, " bytes, more than ", limit_bytes),
                   where);
  }
  zip_file_t* entry = zip_fopen(zip, name.c_str(), 0);
  if (entry == nullptr) return Invalid("malformed_archive", absl::StrCat(name, ": ", zip_strerror(zip)), where);
  // Grown as bytes arrive: a small file that claims gigabytes gets none of them.
  std::string bytes;
  zip_int64_t got = 0;
  do {
    constexpr size_t kChunk = size_t{4} << 20;
    const size_t have = bytes.size();
    bytes.resize(std::min<uint64_t>(stat.size, have + std::max(kChunk, have)));
    if (bytes.size() == have) break;
    got = zip_fread(entry, bytes.data() + have, bytes.size() - have);
    bytes.resize(have + static_cast<size_t>(std::max<zip_int64_t>(got, 0)));
  } while (got > 0);
  // The CRC is compared by the read that meets the entry's end.
  char past_end;
  const bool complete = got >= 0 && bytes.size() == stat.size && zip_fread(entry, &past_end, 1) == 0;
  zip_fclose(entry);
  if (!complete) return Invalid("malformed_archive", absl::StrCat(name, " is damaged"), where);
  return bytes;
}

}  // namespace preheat
