#include "client/cpp/torch_script_file.h"

#include <zip.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cpp/zip_file.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

constexpr uint64_t kMaxEntryBytes = uint64_t{32} << 20;
constexpr size_t kMaxArchiveBytes = size_t{48} << 20;  // a request has 64 MiB

absl::Status Invalid(std::string kind, std::string message, std::string where, std::string fix = "") {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = std::move(kind), .message = std::move(message), .where = std::move(where), .fix = std::move(fix)});
}

// "bert/data/17": the storages of parameters and buffers. Constants of the code lie in "bert/constants".
bool IsStorage(absl::string_view name) {
  const size_t slash = name.find('/');
  if (slash == absl::string_view::npos || !absl::StartsWith(name.substr(slash), "/data/")) return false;
  absl::string_view number = name.substr(slash + 6);
  return !number.empty() && number.find_first_not_of("0123456789") == absl::string_view::npos;
}

struct Entry {
  std::string name, bytes;
};

absl::StatusOr<std::vector<Entry>> ReadEntries(const std::string& path) {
  ASSIGN_OR_RETURN(ZipFile zip, ZipFile::Open(path));
  std::vector<Entry> entries;
  size_t total = 0;
  bool code = false;
  for (const std::string& name : zip.names()) {
    Entry entry{name, std::string(1, '\0')};
    if (!IsStorage(name)) {
      ASSIGN_OR_RETURN(entry.bytes, zip.Read(name, kMaxEntryBytes));
    }
    code |= absl::StrContains(name, "/code/");
    total += entry.bytes.size();
    if (total > kMaxArchiveBytes)
      return Invalid("archive_too_large",
                     absl::StrCat(path, " has more than ", kMaxArchiveBytes, " bytes beside weights"), path);
    entries.push_back(std::move(entry));
  }
  if (!code)
    return Invalid("malformed_archive", absl::StrCat(path, " holds no TorchScript code"), path,
                   "write it with torch.jit.save");
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

absl::StatusOr<std::string> ReadBack(zip_source_t* source) {
  std::string bytes;
  zip_stat_t stat;
  if (zip_source_open(source) != 0 || zip_source_stat(source, &stat) != 0)
    return absl::InternalError("an archive in memory cannot be read back");
  bytes.resize(stat.size);
  const zip_int64_t got = zip_source_read(source, bytes.data(), bytes.size());
  zip_source_close(source);
  if (got != static_cast<zip_int64_t>(bytes.size())) return absl::InternalError("an archive in memory is cut short");
  return bytes;
}

absl::Status AddEntries(zip_t* zip, const std::vector<Entry>& entries, const std::string& path) {
  for (const Entry& entry : entries) {
    zip_source_t* bytes = zip_source_buffer(zip, entry.bytes.data(), entry.bytes.size(), 0);
    const zip_int64_t index = bytes == nullptr ? -1 : zip_file_add(zip, entry.name.c_str(), bytes, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(bytes);  // it stays ours where it is not taken: a name that is no UTF-8, or that comes twice
      return Invalid("malformed_archive",
                     absl::StrCat(path, " has an entry that no archive can hold: ", zip_strerror(zip)), path,
                     "write it with torch.jit.save");
    }
    zip_set_file_compression(zip, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
    zip_file_set_mtime(zip, static_cast<zip_uint64_t>(index), 0, 0);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> WriteEntries(const std::vector<Entry>& entries, const std::string& path) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* memory = zip_source_buffer_create(nullptr, 0, 0, &error);
  if (memory == nullptr) return absl::InternalError("no archive in memory");
  zip_source_keep(memory);
  absl::StatusOr<std::string> written = absl::InternalError("an archive in memory cannot be written");
  if (zip_t* zip = zip_open_from_source(memory, ZIP_CREATE | ZIP_TRUNCATE, &error); zip != nullptr) {
    absl::Status added = AddEntries(zip, entries, path);
    if (!added.ok()) {
      zip_discard(zip);
      written = added;
    } else if (zip_close(zip) == 0) {
      written = ReadBack(memory);
    } else {
      zip_discard(zip);
    }
  }
  zip_source_free(memory);
  return written;
}

}  // namespace

absl::StatusOr<std::string> TorchScriptWithoutStorages(const std::string& path) {
  ASSIGN_OR_RETURN(std::vector<Entry> entries, ReadEntries(path));
  return WriteEntries(entries, path);
}

}  // namespace preheat
