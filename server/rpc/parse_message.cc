#include "server/rpc/parse_message.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "proto/parsed_bytes.h"

namespace preheat::server {
namespace {

absl::Status Malformed(const google::protobuf::Message& message) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "malformed_message",
                    .message = absl::StrCat("the bytes are no ", message.GetTypeName()),
                    .where = "",
                    .fix = "send what proto/preheat/v1 describes"});
}

absl::Status TooComplex(int64_t max_memory_bytes) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      {.kind = "message_too_complex",
       .message = absl::StrCat("the message would take more than ", max_memory_bytes >> 20, " MiB of memory"),
       .where = "",
       .fix = "split the program, or raise max_request_bytes, which this grows with"});
}

}  // namespace

absl::StatusOr<int64_t> MeasureMessage(const grpc::ByteBuffer& bytes, int64_t max_memory_bytes,
                                       const google::protobuf::Message& message) {
  grpc::ByteBuffer copy = bytes;  // of references; a reader consumes its buffer
  grpc::ProtoBufferReader reader(&copy);
  if (!reader.status().ok()) return Malformed(message);
  const int64_t needed = ParsedBytes(reader, message.GetDescriptor(), max_memory_bytes);
  if (needed < 0) return Malformed(message);
  if (needed > max_memory_bytes) return TooComplex(max_memory_bytes);
  return needed;
}

absl::Status ParseMeasured(const grpc::ByteBuffer& bytes, google::protobuf::Message* message) {
  grpc::ByteBuffer copy = bytes;
  grpc::ProtoBufferReader reader(&copy);
  return message->ParseFromZeroCopyStream(&reader) ? absl::OkStatus() : Malformed(*message);
}

absl::Status ParseMessage(const grpc::ByteBuffer& bytes, int64_t max_memory_bytes, google::protobuf::Message* message) {
  RETURN_IF_ERROR(MeasureMessage(bytes, max_memory_bytes, *message).status());
  return ParseMeasured(bytes, message);
}

}  // namespace preheat::server
