#ifndef PREHEAT_SERVER_ADMISSION_H_
#define PREHEAT_SERVER_ADMISSION_H_

#include <atomic>
#include <memory>

#include "absl/status/statusor.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat::server {

struct AdmissionLimits {
  int64_t max_request_bytes = int64_t{64} << 20;
  int64_t max_waiting = 1000;
};

// Says whether a request is taken at all, before anything is done for it. Safe from several threads at once.
class Admission {
 public:
  explicit Admission(AdmissionLimits limits) : limits_(limits) {}

  // Shape and size. INVALID_ARGUMENT "invalid_request", RESOURCE_EXHAUSTED "request_too_large".
  absl::Status Check(const v1::CompileRequest& request) const;

  // A place among those that wait for a compile, held as long as the result lives. RESOURCE_EXHAUSTED
  // "too_many_waiting", with the time to wait before asking again.
  absl::StatusOr<std::shared_ptr<void>> Enter();

 private:
  const AdmissionLimits limits_;
  std::atomic<int64_t> waiting_ = 0;
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_ADMISSION_H_
