#include "compiler/capture/address_owners.h"

#include "compiler/capture/test_programs.h"
#include "compiler/support/error.h"
#include "gtest/gtest.h"

namespace preheat::capture {
namespace {

using ir::Expr;

// What eager reads is held against values in tests/models (as_strided_...); here: the arguments.

int Strided(ProgramWriter& w, int self, std::vector<std::pair<std::string, Argument>> more = {}) {
  std::vector<std::pair<std::string, Argument>> args = {
      {"self", T(self)}, {"size", std::vector<Expr>{2}}, {"stride", std::vector<Expr>{1}}};
  args.insert(args.end(), more.begin(), more.end());
  return w.Call("aten.as_strided.default", args, {2});
}

int Tail(ProgramWriter& w, int self) {
  return w.Call("aten.slice.Tensor", {{"self", T(self)}, {"dim", I(0)}, {"start", I(3)}, {"end", I(8)}}, {5});
}

TEST(AddressOwners, AnOffsetCountsFromTheOwner) {
  ProgramWriter w;
  int x = w.Input({8});
  int tail = Tail(w, x);
  Strided(w, tail);                              // from where the view begins
  Strided(w, tail, {{"storage_offset", I(1)}});  // from where the storage begins
  ASSERT_TRUE(AddressOwners(w.program, {0, 3, 3, 1}).ok());
  EXPECT_EQ(*w.program.nodes[1].Find("self"), T(x));
  EXPECT_EQ(*w.program.nodes[1].Find("storage_offset"), I(3));
  EXPECT_EQ(*w.program.nodes[2].Find("self"), T(x));
  EXPECT_EQ(*w.program.nodes[2].Find("storage_offset"), I(1));
}

TEST(AddressOwners, AnInputMayBeginInsideItsStorage) {
  ProgramWriter w;
  int x = w.Input({8});
  Strided(w, x, {{"storage_offset", I(12)}});
  ASSERT_TRUE(AddressOwners(w.program, {10, 12}).ok());
  EXPECT_EQ(*w.program.nodes[0].Find("storage_offset"), I(2));
}

TEST(AddressOwners, WritesInPlaceKeepTheOwnerAndFreshResultsAreOwners) {
  ProgramWriter w;
  int x = w.Input({8});
  int tail = Tail(w, x);
  int written = w.Call("aten.relu_.default", {{"self", T(tail)}}, {5});
  Strided(w, written);
  int fresh = w.Call("aten.relu.default", {{"self", T(tail)}}, {5});
  Strided(w, fresh);
  ASSERT_TRUE(AddressOwners(w.program, {0, 3, 3, 3, 0, 0}).ok());
  EXPECT_EQ(*w.program.nodes[2].Find("self"), T(x));
  EXPECT_EQ(*w.program.nodes[4].Find("self"), T(fresh));
}

TEST(AddressOwners, AnUnknownOwnerIsAnError) {
  ProgramWriter w;
  int x = w.Input({8});
  int bits = w.Call("aten.view.dtype", {{"self", T(x)}, {"dtype", ir::DType::kI32}}, {8}, ir::DType::kI32);
  Strided(w, bits);
  EXPECT_EQ(GetError(AddressOwners(w.program, {0, 0, 0})).kind, "unsupported_strides");
}

}  // namespace
}  // namespace preheat::capture
