#include "cache/metrics_store.h"

#include <utility>

#include "compiler/support/status_macros.h"

namespace preheat::cache {
namespace {

class MetricsStore : public Store {
 public:
  MetricsStore(std::unique_ptr<Store> inner, std::function<void(Direction, size_t)> count)
      : inner_(std::move(inner)), count_(std::move(count)) {}

  absl::StatusOr<std::optional<std::string>> Get(Table table, absl::string_view key) override {
    auto value = inner_->Get(table, key);
    if (table == Table::kBlob && value.ok() && *value) count_(Direction::kRead, (*value)->size());
    return value;
  }

  absl::Status Write(std::vector<Change> changes, Durability durability) override {
    size_t bytes = 0;
    for (const Change& change : changes) {
      if (change.table == Table::kBlob && change.value) bytes += change.value->size();
    }
    RETURN_IF_ERROR(inner_->Write(std::move(changes), durability));
    if (bytes != 0) count_(Direction::kWritten, bytes);
    return absl::OkStatus();
  }

  absl::Status Scan(Table table, absl::string_view prefix, const Visit& visit) override {
    return inner_->Scan(table, prefix, visit);
  }

  absl::Status Reclaim() override { return inner_->Reclaim(); }

 private:
  const std::unique_ptr<Store> inner_;
  const std::function<void(Direction, size_t)> count_;
};

}  // namespace

std::unique_ptr<Store> NewMetricsStore(std::unique_ptr<Store> inner,
                                       std::function<void(Direction direction, size_t bytes)> count) {
  return std::make_unique<MetricsStore>(std::move(inner), std::move(count));
}

}  // namespace preheat::cache
