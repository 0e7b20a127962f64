#include "cache/raw_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cache {
namespace {

// A file in memory, unmapped at the end.
class MappedFile {
 public:
  static absl::StatusOr<MappedFile> Open(const std::string& path) {
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info = {};
    if (fd < 0 || fstat(fd, &info) != 0) return Failed(path, fd);
    MappedFile file;
    file.size_ = static_cast<size_t>(info.st_size);
    if (file.size_ > 0) {
      file.data_ = mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, fd, 0);
      if (file.data_ == MAP_FAILED) return Failed(path, fd);
    }
    close(fd);
    return file;
  }
  MappedFile(MappedFile&& other) noexcept : data_(other.data_), size_(other.size_) { other.size_ = 0; }
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (size_ > 0) munmap(data_, size_);
  }

  absl::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  MappedFile() = default;
  static absl::Status Failed(const std::string& path, int fd) {
    std::string reason = std::strerror(errno);
    if (fd >= 0) close(fd);
    return MakeError(absl::StatusCode::kUnavailable,
                     {.kind = "store_failed", .message = reason, .where = path, .fix = "check its permissions"});
  }

  void* data_ = nullptr;
  size_t size_ = 0;
};

template <typename Int>
Int Little(absl::string_view bytes, size_t at) {
  Int value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// --- Blob files: a header of 30 bytes; records of lengths, expiration and checksums (32 bytes), key, value; a footer
// ---

constexpr size_t kBlobFileHeader = 30, kBlobFileFooter = 32, kRecordHeader = 32, kDigestLength = 64;
constexpr size_t kLargestBlob = size_t{4} << 30;

// RocksDB puts the length before the compressed bytes, as a varint.
std::optional<std::string> Decompress(absl::string_view stored) {
  uint64_t size = 0;
  size_t at = 0;
  for (int shift = 0; at < stored.size() && shift < 35; shift += 7) {
    uint8_t byte = static_cast<uint8_t>(stored[at++]);
    size |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) break;
  }
  // What is compressed says its size too: a damaged one of the two takes no memory.
  if (size > kLargestBlob || ZSTD_getFrameContentSize(stored.data() + at, stored.size() - at) != size)
    return std::nullopt;
  std::string bytes(size, '\0');
  size_t got = ZSTD_decompress(bytes.data(), bytes.size(), stored.data() + at, stored.size() - at);
  if (ZSTD_isError(got) || got != size) return std::nullopt;
  return bytes;
}

// A record that starts at `at`; its length is that of all of it.
struct BlobRecordAt {
  absl::string_view digest, stored;
  size_t length = 0;
};
std::optional<BlobRecordAt> RecordAt(absl::string_view file, size_t at) {
  if (file.size() - at < kRecordHeader + kDigestLength) return std::nullopt;
  if (Little<uint64_t>(file, at) != kDigestLength) return std::nullopt;
  uint64_t length = Little<uint64_t>(file, at + 8);
  size_t room = file.size() - at - kRecordHeader - kDigestLength;
  absl::string_view digest = file.substr(at + kRecordHeader, kDigestLength);
  if (length > room || !IsDigest(digest)) return std::nullopt;
  return BlobRecordAt{digest, file.substr(at + kRecordHeader + kDigestLength, length),
                      kRecordHeader + kDigestLength + length};
}

}  // namespace

absl::StatusOr<RawScan> ScanBlobFile(const std::string& path,
                                     const std::function<void(absl::string_view digest, std::string bytes)>& visit) {
  ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  absl::string_view file = mapped.bytes();
  RawScan scan;
  size_t at = std::min(kBlobFileHeader, file.size());
  while (at < file.size()) {
    std::optional<BlobRecordAt> record = RecordAt(file, at);
    std::optional<std::string> bytes = record ? Decompress(record->stored) : std::nullopt;
    if (bytes && Digest(*bytes) == record->digest) {
      ++scan.records;
      visit(record->digest, *std::move(bytes));
      at += record->length;
    } else if (file.size() - at == kBlobFileFooter) {
      break;
    } else {
      ++scan.damaged_bytes;
      ++at;
    }
  }
  return scan;
}

// --- Logs: blocks of 32 KiB; pieces of checksum (4 bytes), length (2) and type (1) never cross one ---

namespace {

constexpr size_t kBlock = 32768, kPieceHeader = 7;
enum PieceType : uint8_t { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

uint32_t Crc32c(absl::string_view bytes) {
  static const auto& table = *new std::array<uint32_t, 256>([] {
    std::array<uint32_t, 256> entries{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78u : 0);
      entries[i] = value;
    }
    return entries;
  }());
  uint32_t crc = ~0u;
  for (char byte : bytes) crc = table[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

struct Piece {
  uint8_t type = 0;
  absl::string_view payload;
};
std::optional<Piece> PieceAt(absl::string_view file, size_t at) {
  size_t left = std::min(file.size() - at, kBlock - at % kBlock);
  if (left < kPieceHeader) return std::nullopt;
  size_t length = Little<uint16_t>(file, at + 4);
  uint8_t type = static_cast<uint8_t>(file[at + 6]);
  if (type < kFull || type > kLast || length > left - kPieceHeader) return std::nullopt;
  uint32_t masked = Little<uint32_t>(file, at), rotated = masked - 0xa282ead8u;
  if (Crc32c(file.substr(at + 6, length + 1)) != ((rotated >> 17) | (rotated << 15))) return std::nullopt;
  return Piece{type, file.substr(at + kPieceHeader, length)};
}

// Puts pieces together to records; a broken chain of them is damage.
class Assembler {
 public:
  explicit Assembler(RawScan& scan, const std::function<void(std::string)>& visit) : scan_(scan), visit_(visit) {}

  void Add(const Piece& piece) {
    if (piece.type == kFull || piece.type == kFirst) Break();
    if ((piece.type == kMiddle || piece.type == kLast) && !open_) {
      scan_.damaged_bytes += static_cast<int64_t>(piece.payload.size());
      return;
    }
    record_.append(piece.payload.data(), piece.payload.size());
    open_ = piece.type == kFirst || piece.type == kMiddle;
    if (open_) return;
    ++scan_.records;
    visit_(std::exchange(record_, {}));
  }
  void Break() {
    scan_.damaged_bytes += static_cast<int64_t>(record_.size());
    record_.clear();
    open_ = false;
  }

 private:
  RawScan& scan_;
  const std::function<void(std::string)>& visit_;
  std::string record_;
  bool open_ = false;
};

bool AllZero(absl::string_view bytes) { return bytes.find_first_not_of('\0') == absl::string_view::npos; }

}  // namespace

absl::StatusOr<RawScan> ScanLogFile(const std::string& path, const std::function<void(std::string batch)>& visit) {
  ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  absl::string_view file = mapped.bytes();
  RawScan scan;
  Assembler assembler(scan, visit);
  for (size_t at = 0; at < file.size();) {
    if (std::optional<Piece> piece = PieceAt(file, at)) {
      assembler.Add(*piece);
      at += kPieceHeader + piece->payload.size();
      continue;
    }
    // The next place that is sure to start a piece is the next block.
    size_t next = std::min(file.size(), (at / kBlock + 1) * kBlock);
    bool padding = next - at < kPieceHeader && AllZero(file.substr(at, next - at));
    if (!padding) {
      scan.damaged_bytes += static_cast<int64_t>(next - at);
      assembler.Break();
    }
    at = next;
  }
  assembler.Break();
  return scan;
}

}  // namespace preheat::cache
