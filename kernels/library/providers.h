#ifndef PREHEAT_KERNELS_LIBRARY_PROVIDERS_H_
#define PREHEAT_KERNELS_LIBRARY_PROVIDERS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/library/provider.h"

namespace preheat::library {

// Makes a checked call ready by the first provider of the table (providers.cc) that takes it; `preferred` is asked
// first. "loops" takes every call that CheckCall accepts, so this fails on invalid calls only.
//
// Transposed convolutions, providers that decline an epilogue, and operands that must be exchanged are dealt with here:
// the caller passes addresses in the order of `call`.
absl::StatusOr<std::unique_ptr<PreparedCall>> Prepare(const CallSpec& call, absl::string_view preferred);

// Providers that are here, in the order of the table: "onednn" when its plugin was found beside the runtime, "loops".
std::vector<std::string> ProviderNames();

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_PROVIDERS_H_
