#ifndef PREHEAT_CLIENT_CPP_LOCAL_CACHE_H_
#define PREHEAT_CLIENT_CPP_LOCAL_CACHE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat {

// The client's own folder, shared by all processes of a user:
//
//   blobs/ab/abcd...   bytes by their digest
//   results/<alias>    CompileResult without blobs, by the digest of the request
//   code/              shared objects that the runtime has loaded
//
// It only ever saves work: what cannot be read is absent, what cannot be written is not kept, and neither fails a
// call. Files appear whole (written aside, then renamed), folders are the owner's alone. Thread-safe.
class LocalCache {
 public:
  // "" turns the cache off: everything is absent.
  explicit LocalCache(std::string dir);

  // Checked against the digest; a file with other bytes is removed and absent.
  std::optional<std::string> ReadBlob(absl::string_view digest) const;
  void WriteBlob(absl::string_view digest, absl::string_view bytes) const;
  bool HasBlob(absl::string_view digest) const;

  std::optional<v1::CompileResult> ReadResult(absl::string_view alias) const;
  void WriteResult(absl::string_view alias, v1::CompileResult result) const;

  // For preheat_load_options; "" when off.
  std::string CodeDir() const;

 private:
  std::string BlobPath(absl::string_view digest) const;
  std::string ResultPath(absl::string_view alias) const;

  std::string dir_;
};

// PREHEAT_CACHE_DIR, else XDG_CACHE_HOME/preheat, else ~/.cache/preheat; "" when there is no home either.
std::string DefaultCacheDir();

}  // namespace preheat

#endif  // PREHEAT_CLIENT_CPP_LOCAL_CACHE_H_
