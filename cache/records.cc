#include "cache/records.h"

#include "absl/strings/str_format.h"

namespace preheat::cache {

std::string GenerationKey(absl::string_view key, uint32_t generation) {
  return absl::StrFormat("%s/%08u", key, generation);
}

absl::string_view KeyOf(absl::string_view record_key) { return record_key.substr(0, record_key.find('/')); }

std::vector<v1::BlobRef> NamedBlobs(const v1::Manifest& manifest) {
  std::vector<v1::BlobRef> blobs(manifest.code().begin(), manifest.code().end());
  for (const v1::BlobRef* blob :
       {&manifest.plan(), &manifest.ir(), &manifest.program(), &manifest.source(), &manifest.report()}) {
    if (!blob->digest().empty()) blobs.push_back(*blob);
  }
  return blobs;
}

}  // namespace preheat::cache
