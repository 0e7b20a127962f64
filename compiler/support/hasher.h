#ifndef PREHEAT_COMPILER_SUPPORT_HASHER_H_
#define PREHEAT_COMPILER_SUPPORT_HASHER_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace preheat {

// Digest of bytes that come in pieces: the same as that of all of them joined. Not thread-safe.
class Hasher {
 public:
  Hasher();
  ~Hasher();

  void Update(absl::string_view bytes);
  // As Digest (digest.h) writes it. The last call.
  std::string Finish();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace preheat

#endif  // PREHEAT_COMPILER_SUPPORT_HASHER_H_
