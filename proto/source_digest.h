#ifndef PREHEAT_PROTO_SOURCE_DIGEST_H_
#define PREHEAT_PROTO_SOURCE_DIGEST_H_

#include <string>

#include "proto/preheat/v1/compile.pb.h"

namespace preheat {

// SHA-256, as support/digest.h writes it, of the serialized source: fields by number, maps by key; a Program without
// its debug information and the numbers that point into it. By it the server knows a program that it has seen, and a
// client asks for one without sending it; both must come to the same, so this changes only with kAliasFormat
// (cache/key.cc). Where another version of Protobuf serializes in another way, the program travels, and nothing else
// happens.
//
// `source` is the same afterwards: debug information is only put aside meanwhile, since a large program takes longer to
// copy than to hash.
std::string SourceDigest(v1::Source& source);

}  // namespace preheat

#endif  // PREHEAT_PROTO_SOURCE_DIGEST_H_
