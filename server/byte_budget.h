#ifndef PREHEAT_SERVER_BYTE_BUDGET_H_
#define PREHEAT_SERVER_BYTE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace preheat::server {

// Memory that many share. Safe from several threads at once; outlives what it gives.
class ByteBudget {
 public:
  // `what` is said when it is used up: "blobs on their way to readers".
  ByteBudget(int64_t most, std::string what) : most_(most), what_(std::move(what)) {}

  // Room for that many, held as long as the result lives. Who is alone gets any. RESOURCE_EXHAUSTED "too_many_bytes",
  // with the time to wait before asking again.
  absl::StatusOr<std::shared_ptr<void>> Enter(int64_t bytes);

 private:
  const int64_t most_;
  const std::string what_;
  std::atomic<int64_t> bytes_{0};
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_BYTE_BUDGET_H_
