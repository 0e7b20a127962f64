#include "compiler/support/digest.h"

#include <openssl/sha.h>

#include <algorithm>

#include "absl/strings/escaping.h"

namespace preheat {

std::string Digest(absl::string_view bytes) {
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), hash);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(hash), sizeof(hash)));
}

bool IsDigest(absl::string_view text) {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace preheat
