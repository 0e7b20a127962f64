#include "client/compilectl/buckets.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace preheat::cli {
namespace {

struct Wrong {
  const char* text;
  const char* kind;
  const char* where;
};

// One rejection each: kind and place.
constexpr Wrong kWrong[] = {
    {"models: [{source: a.pt2}]", "missing_field", "b.yaml"},
    {"version: 2\nmodels: [{source: a.pt2}]", "unsupported_version", "b.yaml:1:10"},
    {"version: 1\n", "no_models", "b.yaml"},
    {"version: 1\nmodels: []", "no_models", "b.yaml:2:9"},
    {"version: 1\nmodel: []", "unknown_field", "b.yaml:2:1"},
    {"version: 1\nmodels:\n  - {name: a}", "missing_field", "b.yaml:3:5"},
    {"version: 1\nmodels:\n  - source: a.pt2\n    bukets: []", "unknown_field", "b.yaml:4:5"},
    {"version: 1\nmodels:\n  - source: a.pt2\n    buckets:\n      - {seq: long}", "wrong_type", "b.yaml:5:15"},
    {"version: 1\nmodels:\n  - source: a.pt2\n    buckets:\n      - {seq: [1, 2.5]}", "wrong_type", "b.yaml:5:19"},
    {"version: 1\nmodels:\n  - source: a.pt2\n    buckets:\n      - {seq: []}", "wrong_type", "b.yaml:5:15"},
    {"version: 1\nmodels:\n  - source: a.pt2\n    buckets: {seq: 1}", "wrong_type", "b.yaml:4:14"},
    {"version: 1\nmodels:\n  - source: a.pt2\n    buckets: [{seq: 1, seq: 2}]", "duplicate_field", "b.yaml:4:24"},
    {"version: 1\ndefaults: {mode: slow}\nmodels: [{source: a.pt2}]", "unknown_mode", "b.yaml:2:18"},
    {"version: 1\ndefaults: {freeze: perhaps}\nmodels: [{source: a.pt2}]", "wrong_type", "b.yaml:2:20"},
    {"version: 1\nmodels: [{source: a.pt2}", "malformed_yaml", "b.yaml:2:1"},
    {"version: 1\nmodels:\n\t- source: a.pt2", "malformed_yaml", "b.yaml:3:1"},
    {"version: 1\nmodels:\n  - source: a.pt2\n  \tname: a", "malformed_yaml", "b.yaml:4:3"},
    {"version: 1\nmodels:\n  - &m {source: a.pt2}\n  - &m {source: b.pt2}", "malformed_yaml", "b.yaml:4:5"},
    {"version: 1\nmodels: [{source: a.pt2}]\n---\nversion: 1", "malformed_yaml", "b.yaml:3:1"},
    {"version: 1\nmodels: [*nobody]", "malformed_yaml", "b.yaml:2:10"},
    {"version: 1\nmodels:\n  - source: a.pt2\n    <<: {mode: fast}", "unknown_field", "b.yaml:4:5"},
    {"version: 1\nversion: 1\nmodels: [{source: a.pt2}]", "duplicate_field", "b.yaml:2:1"},
    {"version: 1\nmodels: [{source: [a.pt2]}]", "wrong_type", "b.yaml:2:19"},
    {"version: 1\nmodels: [{source: a.pt2, name: ~}]", "wrong_type", "b.yaml:2:32"},
    {"version: 1\nmodels: [{source: a.pt2, buckets: [{seq: \"128\"}]}]", "wrong_type", "b.yaml:2:42"},
    {"version: 1\nmodels: [{source: a.pt2, buckets: [{seq: 99999999999999999999}]}]", "wrong_type", "b.yaml:2:42"},
    {"version: 1\nmodels: [{source: a.pt2, buckets: [{seq: {a: 1}}]}]", "wrong_type", "b.yaml:2:42"},
    {"version: 1\nmodels: [{source: a.pt2, buckets: [[1, 2]]}]", "wrong_type", "b.yaml:2:36"},
    {"version: 1\nmodels: [{source: a.pt2, target: tpu}]", "unsupported_target", "b.yaml:2:34"},
    {"version: 1\ndefaults: {target: \"cpu:x86-64-v9\"}\nmodels: [{source: a.pt2}]", "unsupported_target",
     "b.yaml:2:20"},
    {"version: 1\nmodels: {source: a.pt2}", "no_models", "b.yaml:2:9"},
    {"version: one\nmodels: [{source: a.pt2}]", "unsupported_version", "b.yaml:1:10"},
    {"\xff\xfe\x00", "wrong_type", "b.yaml"},
    {"just text", "wrong_type", "b.yaml:1:1"},
    {"", "wrong_type", "b.yaml"},
};

TEST(Buckets, EveryMistakeHasKindAndPlace) {
  for (const Wrong& wrong : kWrong) {
    const absl::Status status = ParseBuckets(wrong.text, "b.yaml").status();
    ASSERT_FALSE(status.ok()) << wrong.text;
    EXPECT_EQ(GetError(status).kind, wrong.kind) << wrong.text << "\n" << status;
    EXPECT_EQ(GetError(status).where, wrong.where) << wrong.text << "\n" << status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(Buckets, MistypedFieldsHearTheRightName) {
  const absl::Status status = ParseBuckets("version: 1\nmodels:\n  - {source: a.pt2, bukets: []}", "b.yaml").status();
  EXPECT_NE(GetError(status).message.find("did you mean \"buckets\"?"), std::string::npos) << status;
}

TEST(Buckets, TabsAreNamed) {
  const absl::Status status = ParseBuckets("version: 1\nmodels:\n\t- source: a.pt2", "b.yaml").status();
  EXPECT_NE(GetError(status).message.find("tab"), std::string::npos) << status;
}

// Files that were made to take a reader's stack or memory.
TEST(Buckets, HostileFilesAreRefusedQuickly) {
  const std::string head = "version: 1\nmodels:\n  - source: a.pt2\n    buckets: ";
  std::string aliases = head + "[&b {a: &l [0";
  for (int i = 1; i < 4000; ++i) aliases += "," + std::to_string(i);
  aliases += "]}";
  for (int i = 0; i < 100000; ++i) aliases += ",*b";
  EXPECT_EQ(GetError(ParseBuckets(aliases + "]", "b.yaml").status()).kind, "too_many_buckets");
  EXPECT_EQ(GetError(ParseBuckets(head + std::string(500000, '['), "b.yaml").status()).kind, "malformed_yaml");
  EXPECT_EQ(GetError(ParseBuckets(head + std::string(500000, '{'), "b.yaml").status()).kind, "malformed_yaml");
  std::string laughs = "a0: &a0 [x,x]\n";
  for (int i = 1; i < 60; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + below + "," + below + "]\n";
  }
  EXPECT_EQ(GetError(ParseBuckets(laughs, "b.yaml").status()).kind, "unknown_field");
}

TEST(Buckets, ListsMultiplyOutInOrder) {
  auto models = ParseBuckets(R"(
version: 1
defaults: {target: "cpu:x86-64-v3", mode: fast}
models:
  - name: bert
    source: models/bert.pt2
    buckets:
      - {batch: 1, seq: [64, 128]}
      - {batch: [8, 32], seq: 128}
  - source: /abs/mlp.pt2
    mode: tuned
    freeze: true
)",
                             "dir/b.yaml");
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->size(), 2u);
  const BucketModel& bert = (*models)[0];
  EXPECT_EQ(bert.source, "dir/models/bert.pt2");
  EXPECT_EQ(bert.mode, v1::FAST);
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const BucketDims& dims : bert.buckets) found.emplace_back(dims.at("batch").value, dims.at("seq").value);
  EXPECT_EQ(found, (std::vector<std::pair<int64_t, int64_t>>{{1, 64}, {1, 128}, {8, 128}, {32, 128}}));
  EXPECT_EQ(bert.buckets[1].at("seq").value_at, "dir/b.yaml:8:30");
  const BucketModel& mlp = (*models)[1];
  EXPECT_EQ(mlp.name, "mlp");
  EXPECT_EQ(mlp.source, "/abs/mlp.pt2");
  EXPECT_EQ(mlp.target, "cpu:x86-64-v3");
  EXPECT_EQ(mlp.mode, v1::TUNED);
  EXPECT_TRUE(mlp.freeze);
  ASSERT_EQ(mlp.buckets.size(), 1u);
  EXPECT_TRUE(mlp.buckets[0].empty());
}

TEST(Buckets, AProductThatExplodesIsRefused) {
  std::string list = "[0";
  for (int i = 1; i < 100; ++i) list += ", " + std::to_string(i);
  list += "]";
  const std::string text = "version: 1\nmodels:\n  - source: a.pt2\n    buckets: [{a: " + list + ", b: " + list + "}]";
  EXPECT_EQ(GetError(ParseBuckets(text, "b.yaml").status()).kind, "too_many_buckets");
}

}  // namespace
}  // namespace preheat::cli
