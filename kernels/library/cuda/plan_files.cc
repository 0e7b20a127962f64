#include "kernels/library/cuda/plan_files.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/support/digest.h"

namespace preheat::library {
namespace {

std::mutex g_mutex;
std::string& Folder() {
  static auto& folder = *new std::string();
  return folder;
}

std::string PathOf(absl::string_view what) {
  std::lock_guard<std::mutex> lock(g_mutex);
  return Folder().empty() ? "" : absl::StrCat(Folder(), "/", Digest(what).substr(0, 32), ".cudnn");
}

// What a file begins with: the plan belongs to `what`, and all of it is there.
std::string Head(absl::string_view what, absl::string_view plan) {
  return absl::StrCat(Digest(absl::StrCat(what, "\n", plan)), "\n");
}

}  // namespace

void KeepPlansIn(const std::string& folder) {
  std::lock_guard<std::mutex> lock(g_mutex);
  if (Folder().empty()) Folder() = folder;
}

std::string ReadPlanFile(absl::string_view what) {
  const std::string path = PathOf(what);
  std::ifstream in(path, std::ios::binary);
  if (path.empty() || !in) return "";
  const std::string all{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const size_t head = all.find('\n') + 1;  // 0 without
  const absl::string_view plan = absl::string_view(all).substr(head);
  return absl::string_view(all).substr(0, head) == Head(what, plan) ? std::string(plan) : "";
}

void WritePlanFile(absl::string_view what, absl::string_view plan) {
  const std::string path = PathOf(what);
  if (path.empty() || plan.empty()) return;
  const std::string aside = absl::StrCat(path, ".", getpid());
  std::ofstream out(aside, std::ios::binary);
  out << Head(what, plan) << plan;
  out.close();
  std::error_code failed;
  if (out) std::filesystem::rename(aside, path, failed);
  if (!out || failed) std::filesystem::remove(aside, failed);
}

}  // namespace preheat::library
