#include "tests/faults/examples.h"

#include <functional>
#include <random>

#include "compiler/support/digest.h"

namespace preheat::faults {
namespace {

using cache::Publication;

v1::BlobRef Add(Publication& publication, const std::string& bytes) {
  v1::BlobRef ref;
  ref.set_digest(Digest(bytes));
  ref.set_size_bytes(static_cast<int64_t>(bytes.size()));
  publication.blobs[ref.digest()] = bytes;
  return ref;
}

}  // namespace

std::string Noise(const std::string& name, size_t bytes) {
  std::mt19937_64 random(std::hash<std::string>()(name));
  std::string noise = name + " ";
  while (noise.size() < bytes) noise += static_cast<char>(random());
  return noise;
}

Publication Example(const std::string& name, int size_kb) {
  Publication publication;
  publication.manifest.set_key(Digest(name));
  publication.manifest.set_target("cpu:x86-64-v3");
  *publication.manifest.mutable_plan() = Add(publication, Noise(name + " plan", 2000));
  *publication.manifest.add_code() = Add(publication, Noise(name + " code", static_cast<size_t>(size_kb) << 10));
  *publication.manifest.add_code() = Add(publication, "an object that all share");
  publication.name = name;
  return publication;
}

}  // namespace preheat::faults
