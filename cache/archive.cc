#include "cache/archive.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/records.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/running_digest.h"
#include "compiler/support/status_macros.h"

namespace preheat::cache {
namespace {

constexpr absl::string_view kMagic = "PREHEAT ARCHIVE 1\n";
constexpr size_t kPiece = 1 << 20;
constexpr uint64_t kLargestBlob = uint64_t{1} << 30;  // one is held in memory
constexpr uint64_t kLargestGeneration = 64 << 20;
enum Type : char { kBlobRecord = 'b', kGenerationRecord = 'g', kEndRecord = 'z' };

// --- Writing ---

class Writer {
 public:
  Writer(ArtifactIndex& index, const std::function<absl::Status(absl::string_view)>& sink)
      : index_(index), sink_(sink) {}

  absl::Status Begin() { return Put(kMagic); }

  absl::Status AddKey(const std::string& key) {
    ASSIGN_OR_RETURN(std::vector<v1::GenerationRecord> records, index_.ServableGenerations(key));
    for (const v1::GenerationRecord& record : records) RETURN_IF_ERROR(AddGeneration(record));
    return absl::OkStatus();
  }

  absl::Status End() {
    std::string digest = digest_.Finish();
    RETURN_IF_ERROR(sink_(HeaderOf(kEndRecord, digest.size())));
    return sink_(digest);
  }

 private:
  absl::Status AddGeneration(const v1::GenerationRecord& record) {
    for (const v1::BlobRef& blob : NamedBlobs(record.manifest())) {
      if (!written_.insert(blob.digest()).second) continue;
      absl::StatusOr<std::string> bytes = index_.blobs().Read(blob.digest());
      if (absl::IsNotFound(bytes.status())) return absl::OkStatus();  // was found corrupt just now
      RETURN_IF_ERROR(bytes.status());
      RETURN_IF_ERROR(PutHeader(kBlobRecord, bytes->size()));
      RETURN_IF_ERROR(Put(*bytes));
    }
    ASSIGN_OR_RETURN(v1::KeyRecord key, index_.DescribeKey(record.manifest().key()));
    v1::ArchivedGeneration archived;
    *archived.mutable_manifest() = record.manifest();
    *archived.mutable_key_fields() = key.fields();
    archived.set_name(key.name());
    std::string bytes = archived.SerializeAsString();
    RETURN_IF_ERROR(PutHeader(kGenerationRecord, bytes.size()));
    return Put(bytes);
  }

  static std::string HeaderOf(Type type, uint64_t length) {
    std::string header(1, type);
    header.append(reinterpret_cast<const char*>(&length), sizeof(length));
    return header;
  }
  absl::Status PutHeader(Type type, uint64_t length) { return Put(HeaderOf(type, length)); }
  absl::Status Put(absl::string_view bytes) {
    digest_.Add(bytes);
    for (size_t at = 0; at < bytes.size(); at += kPiece) RETURN_IF_ERROR(sink_(bytes.substr(at, kPiece)));
    return absl::OkStatus();
  }

  ArtifactIndex& index_;
  const std::function<absl::Status(absl::string_view)>& sink_;
  RunningDigest digest_;
  std::set<std::string> written_;
};

// --- Reading ---

absl::Status Bad(std::string message, uint64_t at) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "bad_archive",
                    .message = std::move(message),
                    .where = absl::StrCat("byte ", at),
                    .fix = "copy the archive again, or export it again; nothing was imported"});
}

struct Header {
  char type = 0;
  uint64_t length = 0;
  uint64_t at = 0;  // where its bytes begin
};

// Goes through the records of a file, with a digest over all that it has passed.
class Reader {
 public:
  explicit Reader(const std::string& path) : file_(path, std::ios::binary), size_(SizeOf(path)) {}

  absl::Status Begin() {
    ASSIGN_OR_RETURN(std::string magic, Take(kMagic.size()));
    return magic == kMagic ? absl::OkStatus() : Bad("this is no archive of preheat, or one of another version", 0);
  }

  // The next header. After the end record there is nothing.
  absl::StatusOr<Header> Next() {
    before_ = digest_;
    ASSIGN_OR_RETURN(std::string bytes, Take(9));
    Header header{bytes[0], 0, at_};
    std::memcpy(&header.length, bytes.data() + 1, sizeof(header.length));
    uint64_t largest = header.type == kBlobRecord         ? kLargestBlob
                       : header.type == kGenerationRecord ? kLargestGeneration
                       : header.type == kEndRecord        ? 32
                                                          : 0;
    if (largest == 0) return Bad("an unknown record", at_ - 9);
    if (header.length > largest) return Bad("a record is longer than any can be", at_ - 9);
    return header;
  }
  absl::StatusOr<std::string> Take(uint64_t length) {
    if (length > size_ - at_) return Bad("the archive ends early", size_);
    std::string bytes(length, '\0');
    if (!file_.read(bytes.data(), static_cast<std::streamsize>(length))) return Bad("the archive cannot be read", at_);
    at_ += length;
    digest_.Add(bytes);
    return bytes;
  }
  absl::Status CheckEnd(const Header& header) {
    ASSIGN_OR_RETURN(std::string digest, Take(header.length));
    if (digest != before_.Finish()) return Bad("the archive does not match its own digest", header.at);
    return at_ == size_ ? absl::OkStatus() : Bad("something follows the end of the archive", at_);
  }
  absl::StatusOr<std::string> TakeAt(const Header& header) {
    file_.seekg(static_cast<std::streamoff>(header.at));
    at_ = header.at;
    return Take(header.length);
  }

 private:
  static uint64_t SizeOf(const std::string& path) {
    std::error_code error;
    uint64_t size = std::filesystem::file_size(path, error);
    return error ? 0 : size;
  }

  std::ifstream file_;
  const uint64_t size_;
  uint64_t at_ = 0;
  RunningDigest digest_, before_;
};

// The first pass: where everything is, once all of it has been checked.
struct Contents {
  std::map<std::string, Header> blobs;
  std::vector<Header> generations;
};

absl::Status CheckGeneration(const std::string& bytes, const Header& header, const Contents& contents) {
  v1::ArchivedGeneration archived;
  if (!archived.ParseFromString(bytes)) return Bad("a generation cannot be read", header.at);
  const v1::Manifest& manifest = archived.manifest();
  if (!IsDigest(manifest.key())) return Bad("a manifest has no key", header.at);
  if (manifest.plan().digest().empty()) return Bad("a manifest names no plan", header.at);
  for (const v1::BlobRef& blob : NamedBlobs(manifest)) {
    auto found = contents.blobs.find(blob.digest());
    if (found == contents.blobs.end())
      return Bad(absl::StrCat("blob ", blob.digest().substr(0, 80), " does not stand before its generation"),
                 header.at);
    if (static_cast<int64_t>(found->second.length) != blob.size_bytes())
      return Bad(absl::StrCat("blob ", blob.digest(), " is not of the size that its manifest says"), header.at);
  }
  return absl::OkStatus();
}

absl::StatusOr<Contents> CheckAll(Reader& reader) {
  RETURN_IF_ERROR(reader.Begin());
  Contents contents;
  while (true) {
    ASSIGN_OR_RETURN(Header header, reader.Next());
    if (header.type == kEndRecord) {
      RETURN_IF_ERROR(reader.CheckEnd(header));
      return contents;
    }
    ASSIGN_OR_RETURN(std::string bytes, reader.Take(header.length));
    if (header.type == kBlobRecord) {
      contents.blobs[Digest(bytes)] = header;
    } else {
      RETURN_IF_ERROR(CheckGeneration(bytes, header, contents));
      contents.generations.push_back(header);
    }
  }
}

absl::Status Adopt(ArtifactIndex& index, Reader& reader, const Contents& contents, const Header& header,
                   Imported& imported) {
  ASSIGN_OR_RETURN(std::string bytes, reader.TakeAt(header));
  v1::ArchivedGeneration archived;
  if (!archived.ParseFromString(bytes)) return Bad("the archive changes while it is read", header.at);
  Publication publication;
  publication.manifest = archived.manifest();
  publication.key_fields = {archived.key_fields().begin(), archived.key_fields().end()};
  publication.name = archived.name();
  int64_t fresh = 0;
  for (const v1::BlobRef& blob : NamedBlobs(archived.manifest())) {
    ASSIGN_OR_RETURN(bool has, index.blobs().Has(blob.digest()));
    if (!has && publication.blobs.count(blob.digest()) == 0) ++fresh;
    ASSIGN_OR_RETURN(publication.blobs[blob.digest()], reader.TakeAt(contents.blobs.at(blob.digest())));
  }
  ASSIGN_OR_RETURN(bool adopted, index.Adopt(std::move(publication)));
  imported.generations += adopted ? 1 : 0;
  imported.blobs += adopted ? fresh : 0;
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteArchive(ArtifactIndex& index, const std::vector<std::string>& keys,
                          const std::function<absl::Status(absl::string_view)>& sink) {
  std::vector<std::string> chosen = keys;
  if (chosen.empty()) {
    ASSIGN_OR_RETURN(chosen, index.Keys());
  }
  for (const std::string& key : keys) {
    ASSIGN_OR_RETURN(std::vector<v1::GenerationRecord> records, index.ServableGenerations(key));
    if (records.empty())
      return MakeError(absl::StatusCode::kNotFound, {.kind = "unknown_key",
                                                     .message = "no artifact with this key",
                                                     .where = key.substr(0, 80),
                                                     .fix = "`compilectl ls` shows what is there"});
  }
  Writer writer(index, sink);
  RETURN_IF_ERROR(writer.Begin());
  for (const std::string& key : chosen) RETURN_IF_ERROR(writer.AddKey(key));
  return writer.End();
}

absl::StatusOr<Imported> ReadArchive(ArtifactIndex& index, const std::string& path) {
  Reader reader(path);
  ASSIGN_OR_RETURN(Contents contents, CheckAll(reader));
  Imported imported;
  for (const Header& header : contents.generations) {
    RETURN_IF_ERROR(Adopt(index, reader, contents, header, imported));
  }
  return imported;
}

}  // namespace preheat::cache
