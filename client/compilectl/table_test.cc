#include "client/compilectl/table.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace preheat::cli {
namespace {

TEST(Table, AlignsAndCutsTheWidestColumnThatMay) {
  Table table({{.header = "name", .shrinks = true}, {.header = "bytes", .right = true}});
  table.Add({"a_rather_long_kernel_name", "12"});
  table.Add({"b", "3456"});
  EXPECT_EQ(table.Render(20), "name           bytes\na_rather_l...     12\nb               3456\n");
  EXPECT_EQ(table.Render(1000),
            "name                       bytes\na_rather_long_kernel_name     12\nb                           3456\n");
}

TEST(Table, ColumnsThatMayNotShrinkStayWhole) {
  Table table({{.header = "key"}});
  table.Add({std::string(64, 'a')});
  EXPECT_EQ(table.Render(20), absl::StrCat("key\n", std::string(64, 'a'), "\n"));
}

TEST(Table, OptionalColumnsGoFirst) {
  Table table({{.header = "key"}, {.header = "compile", .optional = true}, {.header = "used"}});
  table.Add({"0123456789ab", "12.3 s", "now"});
  EXPECT_EQ(table.Render(27), "key           compile  used\n0123456789ab  12.3 s   now\n");
  EXPECT_EQ(table.Render(26), "key           used\n0123456789ab  now\n");
}

TEST(Table, CellsOfOthersAreCountedAndCutAsCharacters) {
  Table table({{.header = "name", .shrinks = true}, {.header = "n", .right = true}});
  table.Add({"gr\xc3\xbc\xc3\x9f\xc3\xa4rger\x1b", "1"});
  EXPECT_EQ(table.Render(11), "name      n\ngr\xc3\xbc\xc3\x9f\xc3\xa4...  1\n");
}

}  // namespace
}  // namespace preheat::cli
