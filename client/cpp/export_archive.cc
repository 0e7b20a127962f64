#include "client/cpp/export_archive.h"

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxModelBytes = uint64_t{64} << 20;   // a server takes no more by default
constexpr uint64_t kMaxConfigBytes = uint64_t{16} << 20;  // parsed JSON takes up to thirty times as much memory
constexpr uint64_t kMaxStorageBytes = uint64_t{64} << 30;
constexpr uint64_t kMaxSampleBytes = uint64_t{1} << 30;
constexpr int64_t kMaxSize = int64_t{1} << 40;
constexpr int64_t kMaxInlineConstantBytes = 4096;  // larger ones are inputs: capture's kMaxConstantBytes

absl::Status Malformed(const std::string& where, const std::string& why) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = "malformed_archive", .message = why, .where = where, .fix = "export the model again with torch 2.11"});
}

// torch's ScalarType in schema 8 of torch.export -> numbers of compiler/ir/dtype.h and bytes; -1: none of ours.
struct DTypeRow {
  int dtype, bytes;
};
DTypeRow DTypeFromExport(int64_t scalar_type) {
  static constexpr std::array<DTypeRow, 14> kTable = {{{-1, 0},
                                                       {1, 1},
                                                       {2, 1},
                                                       {3, 2},
                                                       {4, 4},
                                                       {5, 8},
                                                       {6, 2},
                                                       {8, 4},
                                                       {9, 8},
                                                       {-1, 0},
                                                       {10, 8},
                                                       {11, 16},
                                                       {0, 1},
                                                       {7, 2}}};
  return scalar_type >= 0 && scalar_type < static_cast<int64_t>(kTable.size())
             ? kTable[static_cast<size_t>(scalar_type)]
             : DTypeRow{-1, 0};
}

// {"as_int": 3}
bool ReadInt(const Json& json, int64_t& value) {
  const auto it = json.is_object() ? json.find("as_int") : json.end();
  if (!json.is_object() || it == json.end() || !it->is_number_integer()) return false;
  value = it->get<int64_t>();
  return value >= 0 && value <= kMaxSize;
}

bool ReadInts(const Json& parent, const char* name, std::vector<int64_t>& values) {
  const auto it = parent.find(name);
  if (it == parent.end() || !it->is_array() || it->size() > 64) return false;
  for (const Json& item : *it) {
    if (!ReadInt(item, values.emplace_back())) return false;
  }
  return true;
}

// Bytes from a tensor's first element to the end of its last; -1 when that overflows.
int64_t ExtentBytes(const ArchiveTensor& tensor, int element_bytes) {
  int64_t last = 0;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return 0;
    int64_t reach;
    if (__builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return -1;
  }
  return last > kMaxSize ? -1 : (last + 1) * element_bytes;
}

int ElementBytes(int dtype) {
  static constexpr std::array<int, 12> kBytes = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return kBytes[static_cast<size_t>(dtype)];
}

bool ReadTensorMeta(const Json& meta, ArchiveTensor& tensor) {
  if (!meta.is_object() || !meta.contains("dtype") || !meta["dtype"].is_number_integer()) return false;
  const DTypeRow row = DTypeFromExport(meta["dtype"].get<int64_t>());
  int64_t offset = 0;
  if (row.dtype < 0 || !ReadInts(meta, "sizes", tensor.sizes) || !ReadInts(meta, "strides", tensor.strides))
    return false;
  if (tensor.sizes.size() != tensor.strides.size()) return false;
  if (!meta.contains("storage_offset") || !ReadInt(meta["storage_offset"], offset)) return false;
  tensor.dtype = row.dtype;
  tensor.offset_bytes = offset * row.bytes;
  return ExtentBytes(tensor, row.bytes) >= 0;
}

// Dense, row-major: the form in which constants travel.
std::string Dense(const ArchiveTensor& tensor) {
  const auto element = static_cast<size_t>(ElementBytes(tensor.dtype));
  int64_t count = 1;
  for (int64_t size : tensor.sizes) count *= size;
  std::string bytes(static_cast<size_t>(count) * element, '\0');
  std::vector<int64_t> index(tensor.sizes.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) at += index[d] * tensor.strides[d];
    std::memcpy(bytes.data() + static_cast<size_t>(i) * element, tensor.data() + at * static_cast<int64_t>(element),
                element);
    for (size_t d = index.size(); d-- > 0 && ++index[d] == tensor.sizes[d];) index[d] = 0;
  }
  return bytes;
}

// The bytes of a dense tensor of these sizes, at most `limit`; false when there are more.
bool FitsDense(const ArchiveTensor& tensor, int64_t limit) {
  int64_t bytes = ElementBytes(tensor.dtype);
  for (int64_t size : tensor.sizes) {
    if (size == 0) return true;
  }
  for (int64_t size : tensor.sizes) {
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > limit) return false;
  }
  return true;
}

absl::Status NoSuchWeight(const std::string& name, const std::string& path) {
  return MakeError(absl::StatusCode::kNotFound, {.kind = "no_such_weight",
                                                 .message = absl::StrCat("the archive has no weight \"", name, "\""),
                                                 .where = path,
                                                 .fix = ""});
}

absl::Status PickledWeight(const std::string& name, const std::string& path) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "pickled_weight",
                    .message = absl::StrCat("weight \"", name, "\" is a pickled Python object, which is never opened"),
                    .where = path,
                    .fix = "export plain tensors: no tensor subclass, no custom object"});
}

}  // namespace

absl::StatusOr<ExportArchive> ExportArchive::Open(const std::string& path) {
  ExportArchive archive;
  ASSIGN_OR_RETURN(archive.zip_, ZipFile::Open(path));
  archive.path_ = path;
  RETURN_IF_ERROR(archive.FindModel());
  RETURN_IF_ERROR(archive.CheckByteOrder());
  const std::string model = absl::StrCat(archive.root_, "models/", archive.model_name_, ".json");
  ASSIGN_OR_RETURN(*archive.model_.mutable_model_json(), archive.zip_.Read(model, kMaxModelBytes));
  RETURN_IF_ERROR(archive.ReadConfig("data/weights/", absl::StrCat(archive.model_name_, "_weights_config.json")));
  RETURN_IF_ERROR(archive.ReadConfig("data/constants/", absl::StrCat(archive.model_name_, "_constants_config.json")));
  RETURN_IF_ERROR(archive.ReadSmallConstants());
  RETURN_IF_ERROR(archive.ReadDimNames());
  return archive;
}

absl::Status ExportArchive::FindModel() {
  int models = 0;
  for (const std::string& name : zip_.names()) {
    const size_t at = name.find("models/");
    if (at == std::string::npos || (at != 0 && name[at - 1] != '/') || !absl::EndsWith(name, ".json")) continue;
    const std::string model(absl::StripSuffix(absl::string_view(name).substr(at + 7), ".json"));
    // Files that a user added lie in <root>/extra/, and may be called anything.
    if (model.find('/') != std::string::npos || name.find('/') < (at == 0 ? at : at - 1)) continue;
    root_ = name.substr(0, at);
    model_name_ = model;
    ++models;
  }
  if (models == 1) return absl::OkStatus();
  return Malformed(path_, models == 0 ? absl::StrCat(path_, " has no models/*.json: no archive of torch.export")
                                      : absl::StrCat(path_, " holds ", models, " models; one is expected"));
}

absl::Status ExportArchive::CheckByteOrder() {
  const std::string entry = root_ + "byteorder";
  if (!zip_.Has(entry)) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::string order, zip_.Read(entry, 64));
  if (order == "little") return absl::OkStatus();
  return Malformed(path_, absl::StrCat("byte order \"", order, "\" is not supported"));
}

absl::Status ExportArchive::ReadConfig(const std::string& folder, const std::string& config) {
  const std::string entry = absl::StrCat(root_, folder, config);
  if (!zip_.Has(entry)) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::string text, zip_.Read(entry, kMaxConfigBytes));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const std::string where = absl::StrCat(path_, "!", entry);
  if (!json.is_object() || !json.contains("config") || !json["config"].is_object())
    return Malformed(where, absl::StrCat(entry, " has no \"config\""));
  for (const auto& [name, item] : json["config"].items()) {
    if (!item.is_object() || !item.value("path_name", Json()).is_string())
      return Malformed(where, absl::StrCat("entry \"", name, "\" has no path_name"));
    Payload payload;
    payload.file = absl::StrCat(root_, folder, item["path_name"].get<std::string>());
    const Json pickled = item.value("use_pickle", Json(false));
    payload.pickled = !pickled.is_boolean() || pickled.get<bool>();
    // A dtype that Preheat does not know is met when the weight is asked for, and named then.
    if (!payload.pickled && !ReadTensorMeta(item.value("tensor_meta", Json()), payload.tensor)) payload.file.clear();
    payloads_[name] = std::move(payload);
  }
  return absl::OkStatus();
}

absl::Status ExportArchive::ReadSmallConstants() {
  const std::string folder = root_ + "data/constants/";
  for (const auto& [name, payload] : payloads_) {
    if (payload.pickled || !absl::StartsWith(payload.file, folder)) continue;
    if (!FitsDense(payload.tensor, kMaxInlineConstantBytes)) continue;
    ASSIGN_OR_RETURN(ArchiveTensor tensor, Weight(name));
    (*model_.mutable_constants())[name] = Dense(tensor);
  }
  return absl::OkStatus();
}

absl::Status ExportArchive::ReadDimNames() {
  const std::string entry = root_ + "extra/preheat/dims.json";
  if (!zip_.Has(entry)) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::string text, zip_.Read(entry, 1 << 20));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Malformed(absl::StrCat(path_, "!", entry), "names of dimensions must be a JSON object");
  for (const auto& [place, name] : json.items()) {
    if (!name.is_string())
      return Malformed(absl::StrCat(path_, "!", entry), absl::StrCat("the name of \"", place, "\" is no text"));
    (*model_.mutable_dim_names())[place] = name.get<std::string>();
  }
  return absl::OkStatus();
}

absl::StatusOr<ArchiveTensor> ExportArchive::Weight(const std::string& name) {
  const auto it = payloads_.find(name);
  if (it == payloads_.end()) return NoSuchWeight(name, path_);
  const Payload& payload = it->second;
  if (payload.pickled) return PickledWeight(name, path_);
  if (payload.file.empty())
    return Malformed(path_, absl::StrCat("weight \"", name, "\" has a type or shape that cannot be read"));
  ArchiveTensor tensor = payload.tensor;
  ASSIGN_OR_RETURN(tensor.storage, Storage(payload.file));
  const int64_t extent = ExtentBytes(tensor, ElementBytes(tensor.dtype));
  if (extent == 0) tensor.offset_bytes = 0;
  if (tensor.offset_bytes + extent > static_cast<int64_t>(tensor.storage->size())) {
    return Malformed(absl::StrCat(path_, "!", payload.file),
                     absl::StrCat("weight \"", name, "\" reaches past the end of its storage"));
  }
  return tensor;
}

absl::StatusOr<std::shared_ptr<const std::string>> ExportArchive::Storage(const std::string& file) {
  if (std::shared_ptr<const std::string> read = storages_[file].lock()) return read;
  std::string bytes;
  // A tensor without elements may have no file of its own.
  if (zip_.Has(file)) {
    ASSIGN_OR_RETURN(bytes, zip_.Read(file, kMaxStorageBytes));
  }
  auto storage = std::make_shared<const std::string>(std::move(bytes));
  storages_[file] = storage;
  return storage;
}

absl::StatusOr<std::string> ExportArchive::SampleInputs() const {
  const std::string entry = absl::StrCat(root_, "data/sample_inputs/", model_name_, ".pt");
  if (!zip_.Has(entry)) return std::string();
  return zip_.Read(entry, kMaxSampleBytes);
}

}  // namespace preheat
