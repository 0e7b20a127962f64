// The server's edge: what ParsedBytes lets through must take about the memory that it says.

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "proto/parsed_bytes.h"
#include "proto/preheat/v1/compile.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace preheat;
  google::protobuf::io::ArrayInputStream stream(data, static_cast<int>(size));
  const int64_t needed = ParsedBytes(stream, v1::CompileRequest::descriptor(), int64_t{1} << 30);
  v1::CompileRequest request;
  const bool parsed = request.ParseFromArray(data, static_cast<int>(size));
  if (needed < 0) return 0;
  // Arrays double and have a least size; beyond that the estimate is on the safe side.
  constexpr int64_t kSlack = 4096;
  if (parsed && static_cast<int64_t>(request.SpaceUsedLong()) > 2 * needed + kSlack) std::abort();
  return 0;
}
