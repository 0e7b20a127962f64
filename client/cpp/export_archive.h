#ifndef PREHEAT_CLIENT_CPP_EXPORT_ARCHIVE_H_
#define PREHEAT_CLIENT_CPP_EXPORT_ARCHIVE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/zip_file.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat {

// A strided view of a storage in an archive; tied parameters share theirs. dtype: numbers of compiler/ir/dtype.h.
struct ArchiveTensor {
  int dtype = 0;
  std::vector<int64_t> sizes, strides;  // elements
  int64_t offset_bytes = 0;             // of the first element in `storage`
  std::shared_ptr<const std::string> storage;

  const char* data() const { return storage->data() + offset_bytes; }
};

// A torch.export archive (.pt2). What is needed of it is read when it is asked for, and no size or name in it is
// believed: all kinds are INVALID_ARGUMENT, "malformed_archive" or "archive_too_large" unless said otherwise.
class ExportArchive {
 public:
  static absl::StatusOr<ExportArchive> Open(const std::string& path);

  // What travels: model.json, lifted constants of at most 4 KiB, names of dimensions. No weights.
  const v1::ExportedModel& model() const { return model_; }

  // A parameter, buffer or constant by the name that the signature gives it ("encoder.layer.0.weight").
  // NOT_FOUND "no_such_weight"; "pickled_weight" for a Python object in place of a tensor.
  absl::StatusOr<ArchiveTensor> Weight(const std::string& name);

  // data/sample_inputs: a pickle for torch to read (client/torch); "" when there is none.
  absl::StatusOr<std::string> SampleInputs() const;

 private:
  struct Payload {
    std::string file;  // entry of the archive
    bool pickled = false;
    ArchiveTensor tensor;  // without its storage
  };
  absl::Status FindModel();
  absl::Status CheckByteOrder();
  absl::StatusOr<std::shared_ptr<const std::string>> Storage(const std::string& file);
  absl::Status ReadConfig(const std::string& folder, const std::string& config);
  absl::Status ReadSmallConstants();
  absl::Status ReadDimNames();

  ZipFile zip_;
  std::string path_, root_;  // root_: "bert/", the folder in which everything lies
  std::string model_name_;   // "model"
  v1::ExportedModel model_;
  std::map<std::string, Payload> payloads_;
  std::map<std::string, std::weak_ptr<const std::string>> storages_;  // those in use, by entry
};

}  // namespace preheat

#endif  // PREHEAT_CLIENT_CPP_EXPORT_ARCHIVE_H_
