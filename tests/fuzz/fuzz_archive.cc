// A .pt2 file, or the model.json in it: most changes to a zip only break its checksums.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cpp/export_archive.h"
#include "compiler/capture/export_archive.h"
#include "compiler/capture/functionalize.h"

namespace preheat {
namespace {

void Import(const capture::ExportArchive& parts) {
  auto program = capture::ImportExportedModel(parts);
  if (program.ok()) capture::Functionalize(*program).IgnoreError();
}

void ReadFile(const uint8_t* data, size_t size) {
  static const int file = memfd_create("archive", 0);
  if (file < 0 || ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  auto archive = ExportArchive::Open(absl::StrCat("/proc/self/fd/", file));
  if (!archive.ok()) return;
  for (const char* name : {"weight", "linear.weight", "c"}) archive->Weight(name).status().IgnoreError();
  archive->SampleInputs().status().IgnoreError();
  capture::ExportArchive parts;
  parts.model_json = archive->model().model_json();
  parts.constants = {archive->model().constants().begin(), archive->model().constants().end()};
  Import(parts);
}

}  // namespace
}  // namespace preheat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] == '{') {
    const std::string json(reinterpret_cast<const char*>(data), size);
    preheat::capture::ExportArchive parts;
    parts.model_json = json;
    preheat::Import(parts);
  } else {
    preheat::ReadFile(data, size);
  }
  return 0;
}
