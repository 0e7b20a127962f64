#include "cache/verifying_store.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat::cache {
namespace {

using Value = absl::StatusOr<std::optional<std::string>>;

class VerifyingStore : public Store {
 public:
  VerifyingStore(std::unique_ptr<Store> inner, std::function<void(absl::string_view)> on_corrupt)
      : inner_(std::move(inner)), on_corrupt_(std::move(on_corrupt)) {}

  Value Get(Table table, absl::string_view key) override {
    Value value = inner_->Get(table, key);
    if (table != Table::kBlob) return value;
    return IsCorrupt(value, key) ? ReadOrQuarantine(key) : value;
  }

  absl::Status Write(std::vector<Change> changes, Durability durability) override {
    const bool blobs =
        std::any_of(changes.begin(), changes.end(), [](const Change& change) { return change.table == Table::kBlob; });
    std::shared_lock<std::shared_mutex> lock(moving_, std::defer_lock);
    if (blobs) lock.lock();
    return inner_->Write(std::move(changes), durability);
  }

  absl::Status Scan(Table table, absl::string_view prefix, const Visit& visit) override {
    return inner_->Scan(table, prefix, visit);
  }

  // Moving live blobs stops at one that is corrupt: then all are read, which sorts the corrupt ones out.
  absl::Status Reclaim() override {
    absl::Status status = inner_->Reclaim();
    if (!absl::IsDataLoss(status)) return status;
    std::vector<std::string> digests;
    RETURN_IF_ERROR(inner_->Scan(Table::kBlobInfo, "", [&](absl::string_view digest, absl::string_view) {
      digests.emplace_back(digest);
      return true;
    }));
    for (const std::string& digest : digests) RETURN_IF_ERROR(Get(Table::kBlob, digest).status());
    return inner_->Reclaim();
  }

 private:
  // The disk's own checksum may fail before ours: then there are no bytes.
  static bool IsCorrupt(const Value& value, absl::string_view digest) {
    return value.ok() ? *value && Digest(**value) != digest : absl::IsDataLoss(value.status());
  }

  // Without writers of blobs: one may have put sound bytes in the place of the corrupt ones since.
  Value ReadOrQuarantine(absl::string_view key) {
    std::lock_guard lock(moving_);
    Value value = inner_->Get(Table::kBlob, key);
    if (!IsCorrupt(value, key)) return value;
    const std::string digest(key);
    on_corrupt_(digest);
    std::string kept = value.ok() ? **std::move(value) : std::string(value.status().message());
    RETURN_IF_ERROR(inner_->Write({{Table::kQuarantine, digest, std::move(kept)},
                                   {Table::kBlob, digest, std::nullopt},
                                   {Table::kBlobInfo, digest, std::nullopt}},
                                  Durability::kSynced));
    return std::nullopt;
  }

  const std::unique_ptr<Store> inner_;
  const std::function<void(absl::string_view)> on_corrupt_;
  std::shared_mutex moving_;  // shared by writers of blobs, held by who moves a corrupt one away
};

}  // namespace

std::unique_ptr<Store> NewVerifyingStore(std::unique_ptr<Store> inner,
                                         std::function<void(absl::string_view digest)> on_corrupt) {
  return std::make_unique<VerifyingStore>(std::move(inner), std::move(on_corrupt));
}

}  // namespace preheat::cache
