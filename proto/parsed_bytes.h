#ifndef PREHEAT_PROTO_PARSED_BYTES_H_
#define PREHEAT_PROTO_PARSED_BYTES_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <cstdint>

namespace preheat {

// About what a message on the wire will take in memory once parsed: two bytes may become a hundred (an empty
// submessage), so what strangers send is measured first. -1 when the bytes are no message at all; stops early with some
// number above `enough`. Parsing may still fail.
int64_t ParsedBytes(google::protobuf::io::ZeroCopyInputStream& bytes, const google::protobuf::Descriptor* type,
                    int64_t enough);

}  // namespace preheat

#endif  // PREHEAT_PROTO_PARSED_BYTES_H_
