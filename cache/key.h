#ifndef PREHEAT_CACHE_KEY_H_
#define PREHEAT_CACHE_KEY_H_

#include <map>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/preheat/v1/artifact.pb.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat::cache {

// The only place where keys are made. KEY.md says of every input of a compile whether it enters, and why not if not.

// Everything that can change an artifact.
struct KeyInputs {
  std::string ir_text;  // canonical: shapes, strides, signature, frozen inputs and constants are in it
  std::string target;   // canonical
  v1::Toolchain toolchain;
  bool freeze = false;
  std::set<std::string> exclude;
};

struct Key {
  std::string digest;                         // 64 hexadecimal digits
  std::map<std::string, std::string> fields;  // what was hashed, long values by digest: for why-miss
};
Key BuildKey(const KeyInputs& inputs);

// Names a request whose key is not known yet, so that the second one like it needs no import. Two requests with the
// same alias have the same key; two with different aliases may have, too. `target` is canonical. Debug information of a
// Program does not enter, and a request with a source_digest in place of a source has the alias of that source.
// `request` is the same afterwards: debug information is only put aside meanwhile, since a large program takes longer
// to copy than to hash.
std::string BuildAlias(v1::CompileRequest& request, absl::string_view target, const v1::Toolchain& toolchain);

}  // namespace preheat::cache

#endif  // PREHEAT_CACHE_KEY_H_
