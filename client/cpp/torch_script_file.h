#ifndef PREHEAT_CLIENT_CPP_TORCH_SCRIPT_FILE_H_
#define PREHEAT_CLIENT_CPP_TORCH_SCRIPT_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace preheat {

// What travels of a TorchScript archive (.pt of torch.jit.save): code, structure and the constants of the code; each
// storage of a parameter or buffer is cut to one byte. The same file gives the same bytes, always. INVALID_ARGUMENT
// "no_such_file", "not_an_archive", "archive_too_large", and "malformed_archive" for a zip archive without code, such
// as one of torch.save.
absl::StatusOr<std::string> TorchScriptWithoutStorages(const std::string& path);

}  // namespace preheat

#endif  // PREHEAT_CLIENT_CPP_TORCH_SCRIPT_FILE_H_
