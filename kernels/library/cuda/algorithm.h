#ifndef PREHEAT_KERNELS_LIBRARY_CUDA_ALGORITHM_H_
#define PREHEAT_KERNELS_LIBRARY_CUDA_ALGORITHM_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "kernels/library/call.h"

namespace preheat::library {

// Which of a library's algorithms a call takes: CallSpec::algorithm as the library at hand reads it.
struct Algorithm {
  int rank = 0;        // the library's own proposal of this number, counted from 0
  std::string stored;  // not empty: this one, in the library's own bytes
};

// What an artifact keeps of an algorithm: whose it is, of which version, for which sizes.
std::string WriteAlgorithm(absl::string_view library, uint64_t version, const CallSpec& call, absl::string_view bytes);

// `call.algorithm` is empty, a number, or what WriteAlgorithm has made. One that was kept for another library, version
// or call does not hold: the first proposal is taken.
Algorithm ReadAlgorithm(absl::string_view library, uint64_t version, const CallSpec& call);

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_CUDA_ALGORITHM_H_
