#include "client/compilectl/table.h"

#include <gtest/gtest.h>

#include <cmath>

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

TEST(Human, NumbersReadWell) {
  EXPECT_EQ(HumanBytes(12), "12 B");
  EXPECT_EQ(HumanBytes(1536 * 1024), "1.5 MiB");
  EXPECT_EQ(HumanSeconds(0.00456), "4.56 ms");
  EXPECT_EQ(HumanSeconds(12.34), "12.3 s");
  EXPECT_EQ(HumanSeconds(3725), "1 h 02 min");
  EXPECT_EQ(HumanNumber(std::nan("")), "-");
}

}  // namespace
}  // namespace preheat::cli
