#ifndef PREHEAT_TESTS_FAULTS_EXAMPLES_H_
#define PREHEAT_TESTS_FAULTS_EXAMPLES_H_

#include <string>

#include "cache/artifact_index.h"

namespace preheat::faults {

// Bytes that no compressor makes much smaller; the same for the same name.
std::string Noise(const std::string& name, size_t bytes);

// An artifact under the key Digest(name): a plan, code of that size, and an object that all examples share.
cache::Publication Example(const std::string& name, int size_kb);

}  // namespace preheat::faults

#endif  // PREHEAT_TESTS_FAULTS_EXAMPLES_H_
