// A Program from a stranger: everything that happens to it before a schedule is made.

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstddef>
#include <cstdint>

#include "compiler/capture/decompose/lower.h"
#include "compiler/capture/functionalize.h"
#include "compiler/capture/program_proto.h"
#include "proto/parsed_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace preheat;
  constexpr int64_t kMemory = 64 << 20;
  google::protobuf::io::ArrayInputStream stream(data, static_cast<int>(size));
  const int64_t needed = ParsedBytes(stream, v1::Program::descriptor(), kMemory);
  v1::Program proto;
  if (needed < 0 || needed > kMemory || !proto.ParseFromArray(data, static_cast<int>(size))) return 0;
  auto program = capture::FromProto(proto);
  if (!program.ok() || !capture::Functionalize(*program).ok()) return 0;
  decompose::Lower(*program).status().IgnoreError();
  return 0;
}
