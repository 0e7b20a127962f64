#ifndef PREHEAT_COMPILER_SUPPORT_RUNNING_DIGEST_H_
#define PREHEAT_COMPILER_SUPPORT_RUNNING_DIGEST_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;

namespace preheat {

// SHA-256 of bytes that come in pieces. A value: a copy goes on by itself.
class RunningDigest {
 public:
  RunningDigest();
  RunningDigest(const RunningDigest& other);
  RunningDigest& operator=(const RunningDigest& other);
  ~RunningDigest();

  void Add(absl::string_view bytes);
  // The 32 bytes of the digest. Nothing may be added afterwards.
  std::string Finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace preheat

#endif  // PREHEAT_COMPILER_SUPPORT_RUNNING_DIGEST_H_
