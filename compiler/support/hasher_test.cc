#include "compiler/support/hasher.h"

#include <gtest/gtest.h>

#include "compiler/support/digest.h"

namespace preheat {
namespace {

TEST(Hasher, PiecesGiveTheDigestOfTheWhole) {
  EXPECT_EQ(Hasher().Finish(), Digest(""));
  std::string whole;
  Hasher hasher;
  for (int i = 0; i < 1000; ++i) {
    const std::string piece(static_cast<size_t>(i % 130), static_cast<char>(i));
    whole += piece;
    hasher.Update(piece);
  }
  EXPECT_EQ(hasher.Finish(), Digest(whole));
}

}  // namespace
}  // namespace preheat
