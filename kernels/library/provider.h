#ifndef PREHEAT_KERNELS_LIBRARY_PROVIDER_H_
#define PREHEAT_KERNELS_LIBRARY_PROVIDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/library/call.h"

namespace preheat::library {

// A call made ready for its sizes. Immutable: it may run several times at once, each with scratch of its own.
class PreparedCall {
 public:
  virtual ~PreparedCall() = default;

  // The provider's name: "onednn", "loops".
  virtual absl::string_view provider() const = 0;

  // Memory that one run needs besides its operands, aligned to 64.
  virtual int64_t scratch_bytes() const = 0;

  // Operands worth packing (frozen ones only): equal keys mean interchangeable packed bytes; "" means that `operands`
  // is read as it is.
  virtual std::string pack_key(int /*operand*/) const { return ""; }
  virtual int64_t packed_bytes(int /*operand*/) const { return 0; }
  virtual absl::Status Pack(int /*operand*/, const void* /*from*/, void* /*to*/) const {
    return absl::InternalError("nothing is packed");
  }

  virtual absl::Status Run(const preheat_lib_addresses& addresses) const = 0;

  // The algorithm at work, for CallSpec::algorithm of calls like this one; empty: there is nothing to choose.
  virtual std::string algorithm() const { return ""; }
};

// One implementation of library calls. Thread-safe; lives for ever.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual absl::string_view name() const = 0;
  // UNIMPLEMENTED: the provider declines this call, another may take it. REQUIRES: `call` is checked and normalized.
  virtual absl::StatusOr<std::unique_ptr<PreparedCall>> Prepare(const CallSpec& call) const = 0;
};

}  // namespace preheat::library

#endif  // PREHEAT_KERNELS_LIBRARY_PROVIDER_H_
