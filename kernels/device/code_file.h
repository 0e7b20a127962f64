#ifndef PREHEAT_KERNELS_DEVICE_CODE_FILE_H_
#define PREHEAT_KERNELS_DEVICE_CODE_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace preheat {

// Loads a shared object from bytes. The system loads files only, so the bytes become a file named by their digest:
// in `cache_dir` (made with mode 0700 if missing), or, when that is empty or cannot be written by us alone, in a
// private folder that is gone again once the object is mapped.
//
// A digest is loaded once in a process, whoever asks for it; it is unloaded with its last owner.
// DATA_LOSS "corrupt_artifact": the bytes are not those of the digest, or no loadable object.
// FAILED_PRECONDITION "noexec_cache_dir": the folder's file system forbids execution.
absl::StatusOr<std::shared_ptr<const LoadedCode>> LoadSharedObject(const CodeImage& image,
                                                                   const std::string& cache_dir);

}  // namespace preheat

#endif  // PREHEAT_KERNELS_DEVICE_CODE_FILE_H_
