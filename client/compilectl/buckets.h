#ifndef PREHEAT_CLIENT_COMPILECTL_BUCKETS_H_
#define PREHEAT_CLIENT_COMPILECTL_BUCKETS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/client.h"

namespace preheat::cli {

// A buckets.yaml, read and expanded, but its sources not opened yet.
//
//   version: 1
//   defaults: {target: cpu, mode: tuned, freeze: false}
//   models:
//     - name: bert                    # the source's name when left out
//       source: models/bert.pt2       # relative to the file
//       inputs: {x: "f32[batch,128]"} # of a TorchScript source (.pt) alone: its shapes, and its dimensions' names
//       target: cpu                   # and mode, freeze: instead of the defaults
//       buckets:                      # lists multiply out; none: one bucket without values
//         - {batch: [1, 8], seq: 128}
//
// Places are "buckets.yaml:12:7": line and column from 1.
struct BucketValue {
  int64_t value = 0;
  std::string name_at, value_at;  // places
};
using BucketDims = std::map<std::string, BucketValue>;

struct BucketModel {
  std::string name;
  std::string source;     // a path that can be opened from here
  std::string source_at;  // its place
  std::string target;
  v1::Mode mode = v1::TUNED;
  bool freeze = false;
  std::vector<std::string> inputs;  // of a TorchScript source: "x=f32[batch,128]"
  std::vector<BucketDims> buckets;  // at least one
};

// Every mistake is INVALID_ARGUMENT with its place: "no_such_file", "malformed_yaml", "unknown_field",
// "missing_field", "duplicate_field", "wrong_type", "unsupported_version", "unknown_mode", "unsupported_target",
// "too_many_buckets", "no_models".
absl::StatusOr<std::vector<BucketModel>> ReadBuckets(const std::string& path);
// The same from memory; sources are relative to the folder of `path`.
absl::StatusOr<std::vector<BucketModel>> ParseBuckets(const std::string& text, const std::string& path);

// The same status at another place: importers name what is wrong, this file where it was written.
absl::Status AtPlace(const absl::Status& status, absl::string_view where);

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_BUCKETS_H_
