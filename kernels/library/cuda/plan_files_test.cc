#include "kernels/library/cuda/plan_files.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace preheat::library {
namespace {

TEST(PlanFiles, WhatWasWrittenOrNothing) {
  const std::string folder = ::testing::TempDir() + "/plan_files";
  std::filesystem::remove_all(folder);
  EXPECT_EQ(ReadPlanFile("a"), "");  // no folder yet
  WritePlanFile("a", "plan");
  KeepPlansIn(folder);
  EXPECT_EQ(ReadPlanFile("a"), "");
  WritePlanFile("a", "plan");  // the folder is not there
  EXPECT_EQ(ReadPlanFile("a"), "");
  std::filesystem::create_directory(folder);
  const std::string plan("a\nplan\0with all bytes", 21);
  WritePlanFile("a", plan);
  EXPECT_EQ(ReadPlanFile("a"), plan);
  EXPECT_EQ(ReadPlanFile("b"), "");
  KeepPlansIn("/elsewhere");  // the first one stays
  EXPECT_EQ(ReadPlanFile("a"), plan);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(PlanFiles, DamageIsNoPlan) {
  const std::string folder = ::testing::TempDir() + "/plan_files";
  std::filesystem::create_directory(folder);
  KeepPlansIn(folder);
  WritePlanFile("c", "a long enough plan");
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::fstream(file.path(), std::ios::in | std::ios::out | std::ios::binary).seekp(70) << "X";
  }
  EXPECT_EQ(ReadPlanFile("c"), "");
  WritePlanFile("c", "another");
  EXPECT_EQ(ReadPlanFile("c"), "another");
}

}  // namespace
}  // namespace preheat::library
