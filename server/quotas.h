#ifndef PREHEAT_SERVER_QUOTAS_H_
#define PREHEAT_SERVER_QUOTAS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace preheat::server {

// What a namespace may take of a server, a line of a file each:
//
//   # namespace   compiles   bytes
//   research      20         50G
//   ci            4          -
//   *             100        -
//
// compiles: those of its requests that are being compiled or wait for a worker, at once. bytes: of the artifacts that
// it had compiled, as `compilectl ls` counts them; K, M, G and T are powers of 1024. "-": no limit. "*": each namespace
// that has no line; without such a line they have no limits. What is stored is served to everybody, whatever his quota.
// The file is read again when it has changed; one that cannot be read then changes nothing. Safe from several threads
// at once.
class Quotas {
 public:
  // Bytes of artifacts by namespace. Asked at most once a second.
  using MeasureFn = std::function<absl::StatusOr<std::map<std::string, int64_t>>()>;

  // INVALID_ARGUMENT "invalid_config" with the line. Without a file ("") nothing is limited.
  static absl::StatusOr<std::unique_ptr<Quotas>> Read(const std::string& path, MeasureFn measure);

  // Leave to compile something new, held as long as the result lives. RESOURCE_EXHAUSTED "quota_compiles", with the
  // time to wait before asking again, and "quota_bytes".
  absl::StatusOr<std::shared_ptr<void>> EnterCompile(const std::string& name_space);

  // Reads the file again if it has changed. Call now and then.
  absl::Status Refresh();

 private:
  struct Limits {
    int64_t compiles, bytes;
  };
  using ByNamespace = std::map<std::string, Limits, std::less<>>;

  Quotas(std::string path, MeasureFn measure) : path_(std::move(path)), measure_(std::move(measure)) {}
  static absl::StatusOr<ByNamespace> Parse(const std::string& text, const std::string& path);
  static absl::StatusOr<Limits> ParseLine(absl::string_view line, std::string* name);

  absl::StatusOr<int64_t> BytesOf(const std::string& name_space);  // REQUIRES mutex_ held
  void Leave(const std::string& name_space);

  const std::string path_;
  const MeasureFn measure_;
  std::mutex mutex_;
  // All guarded by mutex_.
  ByNamespace limits_;
  std::map<std::string, int64_t> compiling_;
  std::map<std::string, int64_t> bytes_;
  std::chrono::steady_clock::time_point measured_ = {};
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_QUOTAS_H_
