#include "client/compilectl/buckets.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/compilectl/model.h"
#include "compiler/codegen/target.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr size_t kMaxBuckets = 4096;

absl::Status Invalid(std::string kind, std::string message, std::string where, std::string fix = "") {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = std::move(kind), .message = std::move(message), .where = std::move(where), .fix = std::move(fix)});
}

// What any server would refuse, said before anything is compiled. "cpu" and "cuda" mean this machine's own.
absl::Status CheckTarget(const std::string& target) {
  if (target == "cpu" || target == "cuda") return absl::OkStatus();
  if (absl::StartsWith(target, "cuda:")) return ParseCudaTarget(target).status();
  if (absl::StartsWith(target, "cpu:")) return ParseCpuTarget(target).status();
  return Invalid("unsupported_target",
                 absl::StrCat("\"", target, "\" is no target", DidYouMean(target, {"cpu", "cuda"})), "",
                 "write cpu, cuda, cpu:x86-64-v3 or cuda:sm_90");
}

// What yaml-cpp takes in silence: an anchor that is given twice, and documents behind the first.
class SilentMistakes : public YAML::EventHandler {
 public:
  // Kind and place of the first one; nothing if there is none.
  const std::optional<std::pair<std::string, YAML::Mark>>& found() const { return found_; }

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    if (!anchors_.insert(name).second && !found_)
      found_.emplace(absl::StrCat("the anchor &", name, " is given twice"), mark);
  }
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2 && !found_) found_.emplace("a second document begins here", mark);
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  std::set<std::string> anchors_;
  int documents_ = 0;
  std::optional<std::pair<std::string, YAML::Mark>> found_;
};

std::string Place(const std::string& path, const YAML::Mark& mark) {
  return mark.is_null() ? path : absl::StrCat(path, ":", mark.line + 1, ":", mark.column + 1);
}

absl::Status CheckDocument(const std::string& text, const std::string& path) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  SilentMistakes mistakes;
  while (!mistakes.found() && parser.HandleNextDocument(mistakes)) {
  }
  if (!mistakes.found()) return absl::OkStatus();
  const auto& [message, mark] = *mistakes.found();
  return Invalid("malformed_yaml", message, Place(path, mark), "a file of buckets is one document, each anchor once");
}

// yaml-cpp speaks of what it met behind a tab, not of the tab.
std::optional<std::string> IndentingTab(const std::string& text, const std::string& path) {
  int line = 1;
  for (absl::string_view content : absl::StrSplit(text, '\n')) {
    const size_t tab = content.find_first_not_of(' ');
    if (tab != absl::string_view::npos && content[tab] == '\t') return absl::StrCat(path, ":", line, ":", tab + 1);
    ++line;
  }
  return std::nullopt;
}

absl::Status Malformed(const std::string& message, const std::string& text, const std::string& path,
                       const std::string& place) {
  if (std::optional<std::string> tab = IndentingTab(text, path))
    return Invalid("malformed_yaml", "a tab indents this line, and YAML takes only spaces", *tab,
                   "replace the tab by spaces");
  return Invalid("malformed_yaml", message, place, "see deploy/examples/buckets.yaml for the form of the file");
}

// Reads one file: knows its name for places, and the defaults.
class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<std::vector<BucketModel>> Read(const YAML::Node& root);

 private:
  using Fields = std::map<std::string, YAML::Node>;

  std::string At(const YAML::Node& node) const { return Place(path_, node.Mark()); }

  absl::StatusOr<Fields> ReadFields(const YAML::Node& node, const std::string& what,
                                    const std::vector<std::string>& known) const;
  absl::StatusOr<std::string> ReadText(const YAML::Node& node, const std::string& what) const;
  absl::Status ReadSettings(const Fields& fields, BucketModel& model) const;
  absl::StatusOr<std::vector<std::string>> ReadInputs(const YAML::Node& node, const std::string& source) const;
  absl::StatusOr<BucketModel> ReadModel(const YAML::Node& node) const;
  absl::Status ReadBucket(const YAML::Node& node, std::vector<BucketDims>& buckets) const;
  absl::StatusOr<BucketValue> ReadValue(const YAML::Node& node, const std::string& name,
                                        const std::string& name_at) const;

  const std::string path_;
  BucketModel defaults_;
};

absl::StatusOr<Reader::Fields> Reader::ReadFields(const YAML::Node& node, const std::string& what,
                                                  const std::vector<std::string>& known) const {
  if (!node.IsMap())
    return Invalid("wrong_type", absl::StrCat(what, " must be a mapping"), At(node),
                   absl::StrCat("its fields are ", absl::StrJoin(known, ", ")));
  Fields fields;
  for (const auto& item : node) {
    if (!item.first.IsScalar()) return Invalid("wrong_type", "names of fields are plain text", At(item.first));
    const std::string& name = item.first.Scalar();
    if (!known.empty() && std::find(known.begin(), known.end(), name) == known.end()) {
      return Invalid("unknown_field", absl::StrCat(what, " has no field \"", name, "\"", DidYouMean(name, known)),
                     At(item.first), absl::StrCat("its fields are ", absl::StrJoin(known, ", ")));
    }
    if (!fields.emplace(name, item.second).second)
      return Invalid("duplicate_field", absl::StrCat("\"", name, "\" is given twice"), At(item.first));
  }
  return fields;
}

absl::StatusOr<std::string> Reader::ReadText(const YAML::Node& node, const std::string& what) const {
  if (!node.IsScalar() || node.Scalar().empty())
    return Invalid("wrong_type", absl::StrCat(what, " must be text"), At(node));
  return node.Scalar();
}

// What defaults and models share.
absl::Status Reader::ReadSettings(const Fields& fields, BucketModel& model) const {
  if (const auto it = fields.find("target"); it != fields.end()) {
    ASSIGN_OR_RETURN(model.target, ReadText(it->second, "target"));
    if (const absl::Status known = CheckTarget(model.target); !known.ok()) return AtPlace(known, At(it->second));
  }
  if (const auto it = fields.find("mode"); it != fields.end()) {
    ASSIGN_OR_RETURN(std::string text, ReadText(it->second, "mode"));
    const absl::StatusOr<v1::Mode> mode = ParseMode(text, v1::TUNED);
    if (!mode.ok()) return AtPlace(mode.status(), At(it->second));
    model.mode = *mode;
  }
  if (const auto it = fields.find("freeze"); it != fields.end()) {
    if (!it->second.IsScalar() || !YAML::convert<bool>::decode(it->second, model.freeze))
      return Invalid("wrong_type", "freeze must be true or false", At(it->second));
  }
  return absl::OkStatus();
}

absl::StatusOr<BucketValue> Reader::ReadValue(const YAML::Node& node, const std::string& name,
                                              const std::string& name_at) const {
  BucketValue value;
  value.name_at = name_at;
  value.value_at = At(node);
  const bool quoted = node.IsScalar() && node.Tag() == "!";
  if (quoted || !node.IsScalar() || !absl::SimpleAtoi(node.Scalar(), &value.value))
    return Invalid("wrong_type",
                   absl::StrCat("the values of dimension ", name, " must be whole numbers", quoted ? ", unquoted" : ""),
                   At(node), "write 128, or [64, 128]");
  return value;
}

// One mapping of dimensions, of which each list multiplies what is there.
absl::Status Reader::ReadBucket(const YAML::Node& node, std::vector<BucketDims>& buckets) const {
  if (!node.IsMap())
    return Invalid("wrong_type", "a bucket must be a mapping of dimensions to values", At(node),
                   "write {batch: 1, seq: [64, 128]}");
  std::vector<BucketDims> product = {{}};
  std::set<std::string> names;
  for (const auto& item : node) {
    if (!item.first.IsScalar()) return Invalid("wrong_type", "names of dimensions are plain text", At(item.first));
    const std::string& name = item.first.Scalar();
    if (!names.insert(name).second)
      return Invalid("duplicate_field", absl::StrCat("dimension \"", name, "\" is given twice"), At(item.first));
    std::vector<YAML::Node> nodes;
    if (item.second.IsSequence()) {
      for (const YAML::Node& value : item.second) nodes.push_back(value);
    } else {
      nodes = {item.second};
    }
    if (nodes.empty())
      return Invalid("wrong_type", absl::StrCat("dimension ", name, " has an empty list of values"), At(item.second));
    if (buckets.size() + product.size() * nodes.size() > kMaxBuckets)
      return Invalid("too_many_buckets",
                     absl::StrCat("with this one the model has more than ", kMaxBuckets, " buckets"), At(node),
                     "leave a dimension out, so that one artifact serves its whole range");
    std::vector<BucketDims> next;
    for (const BucketDims& dims : product) {
      for (const YAML::Node& value_node : nodes) {
        ASSIGN_OR_RETURN(BucketValue value, ReadValue(value_node, name, At(item.first)));
        next.push_back(dims);
        next.back()[name] = std::move(value);
      }
    }
    product = std::move(next);
  }
  buckets.insert(buckets.end(), product.begin(), product.end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Reader::ReadInputs(const YAML::Node& node, const std::string& source) const {
  if (!absl::EndsWith(source, ".pt"))
    return Invalid("unsupported_source", "inputs belong to TorchScript sources", At(node),
                   "an archive of torch.export knows its inputs: leave the field out");
  if (!node.IsMap()) return Invalid("wrong_type", "inputs must be a map", At(node), "write {x: \"f32[batch,128]\"}");
  std::vector<std::string> inputs;
  for (const auto& entry : node) {
    ASSIGN_OR_RETURN(std::string type, ReadText(entry.second, "an input"));
    inputs.push_back(absl::StrCat(entry.first.Scalar(), "=", type));
  }
  return inputs;
}

absl::StatusOr<BucketModel> Reader::ReadModel(const YAML::Node& node) const {
  ASSIGN_OR_RETURN(Fields fields,
                   ReadFields(node, "a model", {"name", "source", "buckets", "inputs", "target", "mode", "freeze"}));
  BucketModel model = defaults_;
  RETURN_IF_ERROR(ReadSettings(fields, model));
  if (!fields.contains("source"))
    return Invalid("missing_field", "a model needs a source", At(node), "write source: models/bert.pt2");
  ASSIGN_OR_RETURN(std::string source, ReadText(fields["source"], "source"));
  model.source_at = At(fields["source"]);
  model.source = (std::filesystem::path(path_).parent_path() / source).string();
  model.name = std::filesystem::path(source).stem();
  if (fields.contains("name")) {
    ASSIGN_OR_RETURN(model.name, ReadText(fields["name"], "name"));
  }
  if (fields.contains("inputs")) {
    ASSIGN_OR_RETURN(model.inputs, ReadInputs(fields["inputs"], source));
  }
  if (fields.contains("buckets")) {
    if (!fields["buckets"].IsSequence())
      return Invalid("wrong_type", "buckets must be a list", At(fields["buckets"]),
                     "write - {batch: 1, seq: [64, 128]}");
    for (const YAML::Node& bucket : fields["buckets"]) RETURN_IF_ERROR(ReadBucket(bucket, model.buckets));
  }
  if (model.buckets.empty()) model.buckets.push_back({});
  return model;
}

absl::StatusOr<std::vector<BucketModel>> Reader::Read(const YAML::Node& root) {
  ASSIGN_OR_RETURN(Fields fields, ReadFields(root, "the file", {"version", "defaults", "models"}));
  if (!fields.contains("version"))
    return Invalid("missing_field", "the file says no version", path_, "begin it with version: 1");
  if (!fields["version"].IsScalar() || fields["version"].Scalar() != "1")
    return Invalid("unsupported_version", "the version of this file is not 1", At(fields["version"]),
                   "write version: 1");
  if (fields.contains("defaults")) {
    ASSIGN_OR_RETURN(Fields defaults, ReadFields(fields["defaults"], "defaults", {"target", "mode", "freeze"}));
    RETURN_IF_ERROR(ReadSettings(defaults, defaults_));
  }
  if (!fields.contains("models"))
    return Invalid("no_models", "the file names no models", path_, "add models: with a list");
  if (!fields["models"].IsSequence() || fields["models"].size() == 0)
    return Invalid("no_models", "models must be a list with at least one model", At(fields["models"]));
  std::vector<BucketModel> models;
  size_t buckets = 0;
  for (const YAML::Node& node : fields["models"]) {
    ASSIGN_OR_RETURN(BucketModel model, ReadModel(node));
    buckets += model.buckets.size();
    if (buckets > kMaxBuckets)
      return Invalid("too_many_buckets", absl::StrCat("the file multiplies out to more than ", kMaxBuckets, " buckets"),
                     At(node));
    models.push_back(std::move(model));
  }
  return models;
}

}  // namespace

absl::Status AtPlace(const absl::Status& status, absl::string_view where) {
  Error error = GetError(status);
  // What was named so far still helps: the node of an archive, an entry of it.
  if (!error.where.empty() && error.where != where) absl::StrAppend(&error.message, " (", error.where, ")");
  error.where = std::string(where);
  return MakeError(status.code(), std::move(error));
}

absl::StatusOr<std::vector<BucketModel>> ParseBuckets(const std::string& text, const std::string& path) {
  try {
    RETURN_IF_ERROR(CheckDocument(text, path));
    return Reader(path).Read(YAML::Load(text));
  } catch (const YAML::Exception& e) {
    return Malformed(e.msg, text, path, Place(path, e.mark));
  } catch (const std::exception& e) {
    return Malformed(e.what(), text, path, path);
  }
}

absl::StatusOr<std::vector<BucketModel>> ReadBuckets(const std::string& path) {
  std::error_code error;
  std::ifstream in(path, std::ios::binary);
  if (!in || !std::filesystem::is_regular_file(path, error))
    return Invalid("no_such_file", absl::StrCat("there is no file ", path), path);
  if (std::filesystem::file_size(path, error) > kMaxFileBytes)
    return Invalid("malformed_yaml", absl::StrCat(path, " has more than ", kMaxFileBytes, " bytes"), path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return ParseBuckets(text, path);
}

}  // namespace preheat::cli
