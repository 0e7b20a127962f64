// buckets.yaml.

#include <cstddef>
#include <cstdint>
#include <string>

#include "client/compilectl/buckets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  preheat::cli::ParseBuckets(std::string(reinterpret_cast<const char*>(data), size), "b.yaml").status().IgnoreError();
  return 0;
}
