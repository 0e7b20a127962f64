#ifndef PREHEAT_SERVER_RPC_PARSE_MESSAGE_H_
#define PREHEAT_SERVER_RPC_PARSE_MESSAGE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace preheat::server {

// Parses what a stranger sent. Two bytes of the wire may become a hundred of memory (an empty submessage), so the bytes
// are first walked and what they would come to is added up; only what stays under `max_memory_bytes` is parsed.
// INVALID_ARGUMENT "malformed_message", RESOURCE_EXHAUSTED "message_too_complex".
absl::Status ParseMessage(const grpc::ByteBuffer& bytes, int64_t max_memory_bytes, google::protobuf::Message* message);

// The same in two steps, for who wants to know before it is parsed: the bytes of memory, and the parsing.
absl::StatusOr<int64_t> MeasureMessage(const grpc::ByteBuffer& bytes, int64_t max_memory_bytes,
                                       const google::protobuf::Message& message);
absl::Status ParseMeasured(const grpc::ByteBuffer& bytes, google::protobuf::Message* message);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_RPC_PARSE_MESSAGE_H_
