#include "compiler/support/hasher.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"

namespace preheat {

struct Hasher::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) { EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr); }

Hasher::~Hasher() = default;

void Hasher::Update(absl::string_view bytes) { EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()); }

std::string Hasher::Finish() {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, hash, &size);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(hash), size));
}

}  // namespace preheat
