#include "compiler/assign_memory.h"

#include <gtest/gtest.h>

namespace preheat {
namespace {

using artifact::Storage;
using ir::DType;

// Buffers of 64 elements and the steps between which each lives.
class AssignMemoryTest : public ::testing::Test {
 protected:
  uint32_t Add(Storage storage, int first, int last, int64_t elements = 64, DType dtype = DType::kF32) {
    artifact::Buffer buffer;
    buffer.type = {dtype, {elements}};
    buffer.strides = {1};
    buffer.storage = storage;
    buffer.bytes = elements * ir::DTypeSize(dtype);
    plan_.buffers.push_back(buffer);
    const uint32_t number = static_cast<uint32_t>(plan_.buffers.size() - 1);
    lives_[number] = {first, last};
    return number;
  }
  uint32_t AddOutput(int first, int last, int64_t elements = 64, DType dtype = DType::kF32) {
    const uint32_t number = Add(Storage::kOutput, first, last, elements, dtype);
    plan_.buffers[number].index = static_cast<uint32_t>(plan_.output_buffers.size());
    plan_.output_buffers.push_back(number);
    return number;
  }
  int64_t Assign() {
    AssignMemory(plan_, lives_, in_place_, /*lend=*/true);
    return *plan_.arena_bytes.constant();
  }
  const artifact::Buffer& At(uint32_t buffer) const { return plan_.buffers[buffer]; }

  artifact::Plan plan_;
  BufferLives lives_;
  std::vector<InPlaceStep> in_place_;
};

TEST_F(AssignMemoryTest, WhatIsWrittenInPlaceLiesThere) {
  const uint32_t a = Add(Storage::kArena, 0, 1), b = Add(Storage::kArena, 1, 2), c = Add(Storage::kArena, 2, 3);
  EXPECT_EQ(Assign(), 512);  // a and b live at once, c has a's place
  in_place_ = {{1, b, a}, {2, c, b}};
  EXPECT_EQ(Assign(), 256);
  EXPECT_EQ(At(a).offset, At(b).offset);
  EXPECT_EQ(At(b).offset, At(c).offset);
}

TEST_F(AssignMemoryTest, WhatIsReadLaterKeepsItsPlace) {
  const uint32_t a = Add(Storage::kArena, 0, 2), b = Add(Storage::kArena, 1, 2);
  in_place_ = {{1, b, a}};
  EXPECT_EQ(Assign(), 512);
}

TEST_F(AssignMemoryTest, OneResultTakesAPlace) {
  const uint32_t a = Add(Storage::kArena, 0, 1), b = Add(Storage::kArena, 1, 2), c = Add(Storage::kArena, 1, 2);
  in_place_ = {{1, b, a}, {1, c, a}};
  EXPECT_EQ(Assign(), 512);
  EXPECT_NE(At(b).offset, At(c).offset);
}

TEST_F(AssignMemoryTest, OtherSizesAreNotInPlace) {
  const uint32_t a = Add(Storage::kArena, 0, 1, 128), b = Add(Storage::kArena, 1, 2, 64);
  in_place_ = {{1, b, a}};
  EXPECT_EQ(Assign(), 768);
}

TEST_F(AssignMemoryTest, ResultsLendUntilTheyAreWritten) {
  const uint32_t early = Add(Storage::kArena, 0, 1), late = Add(Storage::kArena, 1, 2);
  AddOutput(2, 2);
  EXPECT_EQ(Assign(), 256);
  EXPECT_EQ(At(early).storage, Storage::kOutput);
  EXPECT_EQ(At(late).storage, Storage::kArena);
}

TEST_F(AssignMemoryTest, AResultIsWrittenOverWhatItIsMadeOf) {
  const uint32_t a = Add(Storage::kArena, 0, 1), y = AddOutput(1, 1);
  in_place_ = {{1, y, a}};
  EXPECT_EQ(Assign(), 0);
  EXPECT_EQ(At(a).index, At(y).index);
}

TEST_F(AssignMemoryTest, ResultsOfSmallerElementsOrSizeLendNothing) {
  const uint32_t wide = Add(Storage::kArena, 0, 0, 64, DType::kF64), large = Add(Storage::kArena, 0, 0, 129);
  AddOutput(1, 1, 128);
  Assign();
  EXPECT_EQ(At(wide).storage, Storage::kArena);
  EXPECT_EQ(At(large).storage, Storage::kArena);
}

TEST_F(AssignMemoryTest, NothingIsLentWhereTorchRunsSome) {
  Add(Storage::kArena, 0, 0);
  AddOutput(1, 1);
  plan_.steps.push_back(artifact::ExternStep());
  EXPECT_EQ(Assign(), 256);
}

TEST_F(AssignMemoryTest, UnknownSizesAreWrittenInPlaceToo) {
  const uint32_t a = Add(Storage::kArena, 0, 1), b = Add(Storage::kArena, 1, 2);
  for (uint32_t i : {a, b}) plan_.buffers[i].bytes = ir::Expr::Symbol("d0") * ir::Expr(256);
  in_place_ = {{1, b, a}};
  AssignMemory(plan_, lives_, in_place_, true);
  EXPECT_EQ(At(a).offset, At(b).offset);
}

}  // namespace
}  // namespace preheat
