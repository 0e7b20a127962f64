#ifndef PREHEAT_CLIENT_CPP_ASK_BY_DIGEST_H_
#define PREHEAT_CLIENT_CPP_ASK_BY_DIGEST_H_

#include <string>

#include "absl/status/status.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat {

// Most programs are stored already when a job asks for them, and their digest (proto/source_digest.h) travels faster
// than they do: a large one is asked for by digest first, and sent when the server needs it.

// Whether it is large enough that asking twice costs less than sending it once.
bool IsLarge(const v1::Source& source);

// `whole` without its source, by `digest`. `whole` is the same afterwards.
v1::CompileRequest ByDigest(v1::CompileRequest& whole, const std::string& digest);

// After a request by digest.
enum class Need {
  kNothing,           // an answer, or an error that the source would not change
  kSource,            // the server has to see the source, or
  kSourceEverywhere,  // is of a version that knows no digests: it will have to see each
};
// `result` means nothing where the status is not OK.
Need NeedAfter(const absl::Status& status, v1::Result result);

// Puts the names that the source's own debug information gives to inputs and outputs into a result by digest: the
// server has not seen them.
void NameBoundary(const v1::Source& source, v1::CompileResult& result);

}  // namespace preheat

#endif  // PREHEAT_CLIENT_CPP_ASK_BY_DIGEST_H_
