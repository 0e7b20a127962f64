#include "compiler/support/running_digest.h"

#include <openssl/evp.h>

#include <cstdlib>

namespace preheat {
namespace {

// These fail for want of memory only.
void Must(int result) {
  if (result != 1) std::abort();
}

}  // namespace

void RunningDigest::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

RunningDigest::RunningDigest() : context_(EVP_MD_CTX_new()) {
  Must(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}
RunningDigest::RunningDigest(const RunningDigest& other) : context_(EVP_MD_CTX_new()) {
  Must(EVP_MD_CTX_copy_ex(context_.get(), other.context_.get()));
}
RunningDigest& RunningDigest::operator=(const RunningDigest& other) {
  if (this != &other) Must(EVP_MD_CTX_copy_ex(context_.get(), other.context_.get()));
  return *this;
}
RunningDigest::~RunningDigest() = default;

void RunningDigest::Add(absl::string_view bytes) { Must(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size())); }

std::string RunningDigest::Finish() {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  Must(EVP_DigestFinal_ex(context_.get(), hash, &length));
  return {reinterpret_cast<char*>(hash), length};
}

}  // namespace preheat
