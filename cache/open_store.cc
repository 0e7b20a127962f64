#include "cache/open_store.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cache/salvage.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cache {
namespace {

namespace fs = std::filesystem;
using Tell = std::function<void(const std::string&)>;

std::string DamagedFolder(const std::string& folder) { return folder + ".damaged"; }
std::string NewFolder(const std::string& folder) { return folder + ".new"; }

absl::Status StoreFailed(const std::string& folder, const std::string& what, const std::error_code& error) {
  return MakeError(absl::StatusCode::kUnavailable, {.kind = "store_failed",
                                                    .message = absl::StrCat(what, ": ", error.message()),
                                                    .where = folder,
                                                    .fix = "check free space and permissions of the data folder"});
}

// The newest index of files; "" when there is none.
std::string NewestManifest(const std::string& folder) {
  std::string newest;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "MANIFEST-")) newest = std::max(newest, name);
  }
  return newest;
}

// Whether there is something to lose: a folder with nothing but the beginnings of a new store is none.
bool HoldsData(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string ending = entry.path().extension().string();
    if (ending == ".sst" || ending == ".blob") return true;
    if (ending == ".log" && fs::file_size(entry.path(), error) > 0) return true;
  }
  return false;
}

bool CurrentIsSound(const std::string& folder) {
  std::ifstream file(folder + "/CURRENT");
  std::string name;
  return std::getline(file, name) && absl::StartsWith(name, "MANIFEST-") && !file.eof() &&
         fs::exists(folder + "/" + name);
}

// True if it now names the newest manifest and did not before. RocksDB removes old manifests, so it is the one.
bool RestoreCurrent(const std::string& folder) {
  std::string manifest = NewestManifest(folder);
  if (manifest.empty() || CurrentIsSound(folder)) return false;
  {
    std::ofstream file(folder + "/CURRENT.new");
    file << manifest << "\n";
  }
  std::error_code error;
  fs::rename(folder + "/CURRENT.new", folder + "/CURRENT", error);
  return !error;
}

// A rebuild that a crash has ended between its two renames; one that was not finished starts again.
absl::Status FinishRebuild(const std::string& folder) {
  std::error_code error;
  if (fs::exists(NewFolder(folder)) && !fs::exists(folder)) {
    fs::rename(NewFolder(folder), folder, error);
    if (error) return StoreFailed(folder, "a rebuilt store cannot be put in its place", error);
  }
  fs::remove_all(NewFolder(folder), error);
  return absl::OkStatus();
}

absl::Status PutInPlace(const std::string& folder) {
  std::error_code error;
  fs::remove_all(DamagedFolder(folder), error);
  if (!error) fs::rename(folder, DamagedFolder(folder), error);
  if (!error) fs::rename(NewFolder(folder), folder, error);
  return error ? StoreFailed(folder, "a rebuilt store cannot be put in its place", error) : absl::OkStatus();
}

absl::StatusOr<OpenedStore> Rebuild(const std::string& folder, const RocksdbOptions& options, OpenedStore opened,
                                    const Tell& tell) {
  tell(absl::StrCat("the store in ", folder, " is damaged: reading what is left of it into a new one"));
  {
    ASSIGN_OR_RETURN(std::unique_ptr<Store> fresh, OpenRocksdbStore(NewFolder(folder), options));
    ASSIGN_OR_RETURN(Salvaged salvaged, Salvage(folder, *fresh, tell));
    opened.damage.insert(opened.damage.end(), salvaged.damage.begin(), salvaged.damage.end());
    opened.remarks.push_back(absl::StrCat("recovered ", salvaged.records, " index records and ", salvaged.blobs,
                                          " blobs; made ", salvaged.remade, " generations again from their manifests"));
  }
  RETURN_IF_ERROR(PutInPlace(folder));
  opened.remarks.push_back(absl::StrCat("the store was rebuilt from what could be read; the damaged files are in ",
                                        DamagedFolder(folder), " and may be removed"));
  ASSIGN_OR_RETURN(opened.store, OpenRocksdbStore(folder, options));
  opened.rebuilt = true;
  return opened;
}

// What RocksDB says while it skips records. Shared with the store's logger, which outlives the opening.
class Warnings {
 public:
  void Add(const std::string& text) {
    std::lock_guard lock(mutex_);
    if (!closed_ && absl::StrContains(text, "dropping")) texts_.push_back(text);
  }
  std::vector<std::string> Take() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    return std::move(texts_);
  }

 private:
  std::mutex mutex_;
  bool closed_ = false;  // guarded by mutex_, as below
  std::vector<std::string> texts_;
};

absl::Status OpenSkippingRecords(const std::string& folder, RocksdbOptions options, OpenedStore& opened) {
  auto warnings = std::make_shared<Warnings>();
  options.skip_damaged_log = true;
  options.on_warning = [warnings](const std::string& text) { warnings->Add(text); };
  ASSIGN_OR_RETURN(opened.store, OpenRocksdbStore(folder, options));
  opened.remarks.push_back(
      "the write-ahead log was not whole, as after a crash; all records that can be read are kept");
  for (const std::string& text : warnings->Take()) opened.damage.push_back(absl::StrCat("write-ahead log: ", text));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenedStore> OpenStore(const std::string& folder, const RocksdbOptions& options, const Tell& tell) {
  RETURN_IF_ERROR(FinishRebuild(folder));
  OpenedStore opened;
  // Without CURRENT, RocksDB would take the folder for a new one and remove all that lies in it.
  if (HoldsData(folder) && !CurrentIsSound(folder)) {
    if (!RestoreCurrent(folder)) return Rebuild(folder, options, std::move(opened), tell);
    opened.damage.push_back("CURRENT named no index of files");
    opened.remarks.push_back("CURRENT was written anew: it names " + NewestManifest(folder));
  }
  absl::StatusOr<std::unique_ptr<Store>> sound = OpenRocksdbStore(folder, options);
  if (sound.ok()) {
    opened.store = *std::move(sound);
    return opened;
  }
  if (!absl::IsDataLoss(sound.status())) return sound.status();
  opened.damage.push_back(std::string(sound.status().message()));
  absl::Status skipping = OpenSkippingRecords(folder, options, opened);
  if (skipping.ok()) return opened;
  if (!absl::IsDataLoss(skipping)) return skipping;
  return Rebuild(folder, options, std::move(opened), tell);
}

}  // namespace preheat::cache
