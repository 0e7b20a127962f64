// What a client sends of a TorchScript module, as a worker imports it. An archive ("PK..."), or: a line of input texts
// with ';' between them, then the code of the class M, which is put into an archive, since most changes to a zip only
// break its checksums.

#include <zip.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "compiler/capture/functionalize.h"
#include "compiler/capture/torch_script/import_torch_script.h"

namespace preheat {
namespace {

using Entry = std::pair<const char*, std::string>;

std::string Zip(const std::vector<Entry>& entries) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* memory = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_source_keep(memory);
  zip_t* zip = zip_open_from_source(memory, ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (zip == nullptr) std::abort();
  for (const auto& [name, bytes] : entries) {
    const zip_int64_t index =
        zip_file_add(zip, name, zip_source_buffer(zip, bytes.data(), bytes.size(), 0), ZIP_FL_ENC_UTF_8);
    zip_set_file_compression(zip, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  zip_stat_t stat;
  if (zip_close(zip) != 0 || zip_source_open(memory) != 0 || zip_source_stat(memory, &stat) != 0) std::abort();
  std::string bytes(stat.size, '\0');
  zip_source_read(memory, bytes.data(), bytes.size());
  zip_source_close(memory);
  zip_source_free(memory);
  return bytes;
}

// Of a module without weights, in training mode; as torch.jit.save writes it.
std::string Archive(const std::string& code) {
  const std::string module(
      "\x80\x02"
      "c__torch__\nM\nq\0)\x81}(X\x08\0\0\0trainingq\x01\x88ubq\x02.",
      42);
  return Zip({{"m/data.pkl", module},
              {"m/code/__torch__.py", code},
              {"m/constants.pkl", std::string("\x80\x02).")},
              {"m/version", "3\n"},
              {"m/byteorder", "little"}});
}

}  // namespace
}  // namespace preheat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  preheat::capture::TorchScriptSource source;
  source.inputs = {"x=f32[batch,3]"};
  source.dims = {{"batch", 2}, {"n", 4}};
  if (bytes.compare(0, 2, "PK") == 0) {
    source.archive = bytes;
  } else {
    const size_t line = bytes.find('\n');
    source.inputs = absl::StrSplit(bytes.substr(0, line), ';');
    source.archive = preheat::Archive(line == std::string::npos ? "" : bytes.substr(line + 1));
  }
  auto program = preheat::capture::ImportTorchScript(source);
  if (program.ok()) preheat::capture::Functionalize(*program).IgnoreError();
  return 0;
}
