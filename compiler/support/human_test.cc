#include "compiler/support/human.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace preheat {
namespace {

TEST(Human, NumbersReadWell) {
  EXPECT_EQ(HumanBytes(12), "12 B");
  EXPECT_EQ(HumanBytes(1536 * 1024), "1.5 MiB");
  EXPECT_EQ(HumanSeconds(0.00456), "4.56 ms");
  EXPECT_EQ(HumanSeconds(0.99999), "1.0 s");
  EXPECT_EQ(HumanSeconds(12.34), "12.3 s");
  EXPECT_EQ(HumanSeconds(3725), "1 h 02 min");
  EXPECT_EQ(HumanSeconds(3 * 86400 + 4 * 3600), "3 d 04 h");
  EXPECT_EQ(HumanSeconds(std::numeric_limits<double>::infinity()), "-");
  EXPECT_EQ(HumanNumber(std::nan("")), "-");
  EXPECT_EQ(HumanAge(0.2), "now");
  EXPECT_EQ(HumanAge(59.9), "59 s");
  EXPECT_EQ(HumanAge(7200), "2 h");
}

TEST(Human, ForeignTextCannotMoveTheCursor) {
  EXPECT_EQ(Printable("a\x1b[2Jb\n\x7f"), "a?[2Jb??");
  EXPECT_EQ(Printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(Printable("\xc3"), "?");                 // cut off
  EXPECT_EQ(Printable("\xc0\xaf"), "??");            // longer than its value needs
  EXPECT_EQ(Printable("\xed\xa0\x80"), "???");       // a surrogate
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "????");  // beyond Unicode
  EXPECT_EQ(Printable("\xc2\x9b"), "??");            // C1: starts a control sequence on some terminals
}

TEST(Human, ShorteningCountsCharacters) {
  EXPECT_EQ(Shorten("abcdef", 6), "abcdef");
  EXPECT_EQ(Shorten("abcdefg", 6), "abc...");
  EXPECT_EQ(Shorten("abcdefg", 2), "ab");
  EXPECT_EQ(Shorten("\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc", 4), "\xc3\xbc...");
  EXPECT_EQ(Columns("\xc3\xbc\xe2\x82\xac"), 2u);
}

}  // namespace
}  // namespace preheat
