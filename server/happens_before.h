#ifndef PREHEAT_SERVER_HAPPENS_BEFORE_H_
#define PREHEAT_SERVER_HAPPENS_BEFORE_H_

#ifdef PREHEAT_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace preheat::server {

// gRPC begins no call before its server is started, and no reaction of a call before the one that caused it has ended,
// by locks and counters of a library that is not instrumented: ThreadSanitizer is told. What came before
// HappensBefore(x) on one thread is then ordered before what follows HappensAfter(x) on another. No code in other
// builds: neither orders anything.
inline void HappensBefore([[maybe_unused]] void* what) {
#ifdef PREHEAT_THREAD_SANITIZER
  __tsan_release(what);
#endif
}
inline void HappensAfter([[maybe_unused]] void* what) {
#ifdef PREHEAT_THREAD_SANITIZER
  __tsan_acquire(what);
#endif
}

// A reaction of `what`, from its beginning to its end.
class Reaction {
 public:
  explicit Reaction(void* what) : what_(what) { HappensAfter(what_); }
  ~Reaction() { HappensBefore(what_); }
  Reaction(const Reaction&) = delete;
  Reaction& operator=(const Reaction&) = delete;

 private:
  void* const what_;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_HAPPENS_BEFORE_H_
