#ifndef PREHEAT_SERVER_IDENTITY_H_
#define PREHEAT_SERVER_IDENTITY_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace preheat::server {

// Who calls.
struct Identity {
  std::string name;
  std::string name_space;  // what the caller's requests count for; empty: what the request says
  bool admin = false;      // may remove, sweep and import
};

// The tokens that a server knows, one a line of a file:
//
//   # name   namespace   role    SHA-256 of the token (printf %s "$TOKEN" | sha256sum)
//   trainer  research    user    9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//
// The role is user or admin. The file is read again when it has changed; one that cannot be read then changes nothing.
// Safe from several threads at once.
class Tokens {
 public:
  // INVALID_ARGUMENT "invalid_config" with the line.
  static absl::StatusOr<std::unique_ptr<Tokens>> Read(const std::string& path);

  // `authorization`: "Bearer TOKEN", as the metadata has it. UNAUTHENTICATED "no_token", "unknown_token".
  absl::StatusOr<Identity> Check(absl::string_view authorization);

  // Reads the file again if it has changed. Call now and then.
  absl::Status Refresh();

 private:
  using ByDigest = std::map<std::string, Identity, std::less<>>;
  explicit Tokens(std::string path) : path_(std::move(path)) {}
  static absl::StatusOr<ByDigest> Parse(const std::string& text, const std::string& path);

  const std::string path_;
  std::mutex mutex_;
  std::string text_;    // guarded by mutex_: as it was read last
  ByDigest by_digest_;  // guarded by mutex_
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_IDENTITY_H_
