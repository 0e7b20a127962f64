#include "cache/verifying_store.h"

#include <utility>

#include "compiler/support/digest.h"
#include "compiler/support/status_macros.h"

namespace preheat::cache {
namespace {

class VerifyingStore : public Store {
 public:
  VerifyingStore(std::unique_ptr<Store> inner, std::function<void(absl::string_view)> on_corrupt)
      : inner_(std::move(inner)), on_corrupt_(std::move(on_corrupt)) {}

  absl::StatusOr<std::optional<std::string>> Get(Table table, absl::string_view key) override {
    absl::StatusOr<std::optional<std::string>> value = inner_->Get(table, key);
    if (table != Table::kBlob) return value;
    // The disk's own checksum fails before ours: then there are no bytes to keep.
    if (absl::IsDataLoss(value.status())) {
      RETURN_IF_ERROR(Quarantine(std::string(key), std::string(value.status().message())));
      return std::nullopt;
    }
    if (!value.ok() || !*value || Digest(**value) == key) return value;
    RETURN_IF_ERROR(Quarantine(std::string(key), **std::move(value)));
    return std::nullopt;
  }

  absl::Status Write(std::vector<Change> changes, Durability durability) override {
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
  absl::Status Quarantine(std::string digest, std::string bytes) {
    on_corrupt_(digest);
    return inner_->Write({{Table::kQuarantine, digest, std::move(bytes)},
                          {Table::kBlob, digest, std::nullopt},
                          {Table::kBlobInfo, digest, std::nullopt}},
                         Durability::kSynced);
  }

  const std::unique_ptr<Store> inner_;
  const std::function<void(absl::string_view)> on_corrupt_;
};

}  // namespace

std::unique_ptr<Store> NewVerifyingStore(std::unique_ptr<Store> inner,
                                         std::function<void(absl::string_view digest)> on_corrupt) {
  return std::make_unique<VerifyingStore>(std::move(inner), std::move(on_corrupt));
}

}  // namespace preheat::cache
