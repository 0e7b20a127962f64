#include "client/cpp/export_archive.h"

#include <gtest/gtest.h>
#include <zip.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"

namespace preheat {
namespace {

using Entries = std::map<std::string, std::string>;

std::string Write(const std::string& name, const Entries& entries) {
  const std::string path = testing::TempDir() + "/" + name;
  std::filesystem::remove(path);
  zip_t* zip = zip_open(path.c_str(), ZIP_CREATE, nullptr);
  for (const auto& [entry, bytes] : entries) {
    zip_file_add(zip, entry.c_str(), zip_source_buffer(zip, bytes.data(), bytes.size(), 0), 0);
  }
  EXPECT_EQ(zip_close(zip), 0);
  return path;
}

std::string Floats(std::initializer_list<float> values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

// One entry of a config; sizes and strides of a matrix.
std::string Meta(const std::string& file, int rows, int columns, int row_stride, int column_stride, int offset = 0,
                 int dtype = 7, bool pickled = false) {
  auto ints = [](int a, int b) { return absl::StrCat("[{\"as_int\": ", a, "}, {\"as_int\": ", b, "}]"); };
  return absl::StrCat(
      "{\"path_name\": \"", file, "\", \"is_param\": true, \"use_pickle\": ", pickled ? "true" : "false",
      ", \"tensor_meta\": {\"dtype\": ", dtype, ", \"sizes\": ", ints(rows, columns),
      ", \"strides\": ", ints(row_stride, column_stride), ", \"storage_offset\": {\"as_int\": ", offset, "}}}");
}

Entries Archive(const std::string& weights, const std::string& constants = "") {
  return {{"m/models/model.json", "{}"},
          {"m/byteorder", "little"},
          {"m/data/weights/model_weights_config.json", absl::StrCat("{\"config\": {", weights, "}}")},
          {"m/data/constants/model_constants_config.json", absl::StrCat("{\"config\": {", constants, "}}")},
          {"m/data/weights/w", Floats({0, 1, 2, 3, 4, 5, 6, 7})},
          {"m/data/constants/c", Floats({0, 1, 2, 3, 4, 5})}};
}

float At(const ArchiveTensor& tensor, int row, int column) {
  float value;
  std::memcpy(&value, tensor.data() + 4 * (row * tensor.strides[0] + column * tensor.strides[1]), 4);
  return value;
}

TEST(ExportArchive, TiedWeightsAreViewsOfOneStorage) {
  auto archive = ExportArchive::Open(Write(
      "tied.pt2", Archive(absl::StrCat("\"a\": ", Meta("w", 2, 3, 3, 1), ", \"b\": ", Meta("w", 3, 2, 1, 3, 2)))));
  ASSERT_TRUE(archive.ok()) << archive.status();
  auto a = archive->Weight("a"), b = archive->Weight("b");
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  EXPECT_EQ(a->storage, b->storage);
  EXPECT_EQ(At(*a, 1, 2), 5);
  EXPECT_EQ(At(*b, 2, 1), 2 + 2 + 3);
  EXPECT_EQ(a->dtype, 8);
}

TEST(ExportArchive, SmallConstantsTravelRowMajor) {
  auto archive =
      ExportArchive::Open(Write("constants.pt2", Archive("", absl::StrCat("\"k\": ", Meta("c", 3, 2, 1, 3)))));
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_EQ(archive->model().constants().at("k"), Floats({0, 3, 1, 4, 2, 5}));
}

TEST(ExportArchive, LargeConstantsAreInputs) {
  Entries entries = Archive("", absl::StrCat("\"k\": ", Meta("c", 33, 32, 32, 1)));
  entries["m/data/constants/c"] = std::string(33 * 32 * 4, 'x');
  auto archive = ExportArchive::Open(Write("large.pt2", entries));
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_TRUE(archive->model().constants().empty());
  EXPECT_TRUE(archive->Weight("k").ok());
}

TEST(ExportArchive, NamesOfDimensionsAreRead) {
  Entries entries = Archive("");
  entries["m/extra/preheat/dims.json"] = R"({"x.0": "batch"})";
  entries["m/extra/models/other.json"] = "a file of the user's";
  auto archive = ExportArchive::Open(Write("dims.pt2", entries));
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_EQ(archive->model().dim_names().at("x.0"), "batch");
}

TEST(ExportArchive, WeightsThatCannotBeRightAreNamed) {
  struct Case {
    std::string meta, kind;
  };
  const Case cases[] = {
      {Meta("w", 3, 3, 3, 1), "malformed_archive"},     // past the end
      {Meta("w", 1, 1, 1, 1, 8), "malformed_archive"},  // begins past the end
      {Meta("w", 1 << 30, 1 << 30, 1 << 30, 1 << 30), "malformed_archive"},
      {Meta("w", 2, 2, 2, 1, 0, 29), "malformed_archive"},  // a float8
      {Meta("w", 2, 2, 2, 1, 0, 7, true), "pickled_weight"},
      {Meta("absent", 2, 2, 2, 1), "malformed_archive"},
      {"{\"path_name\": \"w\", \"use_pickle\": false}", "malformed_archive"},
  };
  for (const Case& c : cases) {
    auto archive = ExportArchive::Open(Write("wrong.pt2", Archive("\"a\": " + c.meta)));
    ASSERT_TRUE(archive.ok()) << archive.status();
    EXPECT_EQ(GetError(archive->Weight("a").status()).kind, c.kind) << c.meta;
  }
  auto archive = ExportArchive::Open(Write("empty.pt2", Archive("\"a\": " + Meta("absent", 0, 2, 2, 1))));
  ASSERT_TRUE(archive.ok());
  EXPECT_TRUE(archive->Weight("a").ok()) << "a tensor without elements needs no file";
  EXPECT_EQ(archive->Weight("b").status().code(), absl::StatusCode::kNotFound);
}

TEST(ExportArchive, WhatIsNoArchiveIsSaid) {
  EXPECT_EQ(GetError(ExportArchive::Open(testing::TempDir() + "/none.pt2").status()).kind, "no_such_file");
  EXPECT_EQ(GetError(ExportArchive::Open(Write("bare.pt2", {{"m/x", ""}})).status()).kind, "malformed_archive");
  Entries big = Archive("");
  big["m/byteorder"] = "big";
  EXPECT_EQ(GetError(ExportArchive::Open(Write("big.pt2", big)).status()).kind, "malformed_archive");
  Entries torn = Archive("");
  torn["m/data/weights/model_weights_config.json"] = "{\"config\": ";
  EXPECT_EQ(GetError(ExportArchive::Open(Write("torn.pt2", torn)).status()).kind, "malformed_archive");
}

}  // namespace
}  // namespace preheat
