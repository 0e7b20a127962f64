#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_NVRTC_WIRE_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_NVRTC_WIRE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace preheat::codegen {

// What a worker and its preheat-nvrtc processes say to each other over a socket: frames of a length (8 bytes, as the
// machine has them) and as many bytes. The process begins with NvrtcVersion. Then, for each kernel, two frames go
// there: flags, one a line, and the source; two come back: "REGISTERS SPILL_BYTES" and the cubin, or "" and what went
// wrong.

// False: the other side is gone.
bool SendFrame(int socket, absl::string_view bytes);
// Nothing: the other side is gone, or says what no frame is.
std::optional<std::string> ReceiveFrame(int socket);

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_NVRTC_WIRE_H_
