#include "compiler/passes/simplify.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/passes/testing.h"
#include "gtest/gtest.h"

namespace preheat::passes {
namespace {

constexpr char kPrelude[] = R"(
symbol n in [1, inf]
%x = input user f32[n, 3]
%y = input user f32[n, 3]
%i = input user i32[n, 3]
%j = input user i32[n, 3]
%b = input user bool[n, 3]
%d = input user bool[n, 3]
%h = input user bf16[n, 3]
%u = input user u8[n, 3]
%s = input user f32[1, n, 1, 3]
%w = input user f32[12]
%v = input user f32[n, 3, 2]
%zero = fill {value = 0.0} : f32[n, 3]
%minus_zero = fill {value = -0.0} : f32[n, 3]
%one = fill {value = 1.0} : f32[n, 3]
%minus_one = fill {value = -1.0} : f32[n, 3]
%two = fill {value = 2.0} : f32[n, 3]
%three = fill {value = 3.0} : f32[n, 3]
%quarter = fill {value = 0.25} : f32[n, 3]
%four = fill {value = 4.0} : f32[n, 3]
%i0 = fill {value = 0} : i32[n, 3]
%i1 = fill {value = 1} : i32[n, 3]
%true = fill {value = 1} : bool[n, 3]
%false = fill {value = 0} : bool[n, 3]
)";

std::string Program(absl::string_view nodes, absl::string_view result) {
  return absl::StrCat(kPrelude, nodes, "\noutput ", result, "\n");
}

struct Equation {
  const char* before;  // defines %r
  const char* after;   // a value, or nodes that define %r
  double tolerance = 0;
};

// One line a rule.
const Equation kEquations[] = {
    // add, sub
    {"%r = add(%x, %minus_zero)", "%x"},
    {"%r = add(%minus_zero, %x)", "%x"},
    {"%r = add(%i0, %i)", "%i"},
    {"%r = add(%b, %false)", "%b"},
    {"%k = neg(%y)\n%r = add(%x, %k)", "%r = sub(%x, %y)"},
    {"%r = sub(%x, %zero)", "%x"},
    {"%r = sub(%i, %i)", "%i0"},
    {"%k = neg(%y)\n%r = sub(%x, %k)", "%r = add(%x, %y)"},
    // mul, div
    {"%r = mul(%one, %x)", "%x"},
    {"%r = mul(%b, %true)", "%b"},
    {"%r = mul(%i, %i0)", "%i0"},
    {"%r = mul(%x, %minus_one)", "%r = neg(%x)"},
    {"%p = neg(%x)\n%q = neg(%y)\n%r = mul(%p, %q)", "%r = mul(%x, %y)"},
    {"%r = div(%x, %one)", "%x"},
    {"%r = div(%x, %four)", "%r = mul(%x, %quarter)"},
    {"%r = div(%i, %i1)", "%i"},
    {"%r = floor_div(%i, %i1)", "%i"},
    {"%p = neg(%x)\n%q = neg(%y)\n%r = div(%p, %q)", "%r = div(%x, %y)"},
    // neg, abs, pow, max, min
    {"%p = floor(%x)\n%r = floor(%p)", "%r = floor(%x)"},
    {"%p = neg(%x)\n%r = neg(%p)", "%x"},
    {"%p = abs(%x)\n%r = abs(%p)", "%r = abs(%x)"},
    {"%p = neg(%x)\n%r = abs(%p)", "%r = abs(%x)"},
    {"%r = pow(%x, %zero)", "%one"},
    {"%r = pow(%x, %one)", "%x"},
    {"%r = pow(%x, %two)", "%r = mul(%x, %x)"},
    {"%r = pow(%x, %three)", "%p = mul(%x, %x)\n%r = mul(%p, %x)", 1e-6},
    {"%r = max(%x, %x)", "%x"},
    {"%p = max(%x, %y)\n%r = max(%x, %p)", "%r = max(%x, %y)"},
    {"%p = min(%x, %y)\n%r = min(%p, %y)", "%r = min(%x, %y)"},
    // logic
    {"%p = not(%b)\n%r = not(%p)", "%b"},
    {"%p = eq(%x, %y)\n%r = not(%p)", "%r = ne(%x, %y)"},
    {"%r = and(%true, %b)", "%b"},
    {"%r = and(%i, %i0)", "%i0"},
    {"%r = or(%b, %b)", "%b"},
    {"%r = or(%b, %true)", "%true"},
    {"%r = xor(%i, %i)", "%i0"},
    {"%r = where(%true, %x, %y)", "%x"},
    {"%r = where(%false, %x, %y)", "%y"},
    {"%r = where(%b, %x, %x)", "%x"},
    {"%p = not(%b)\n%r = where(%p, %x, %y)", "%r = where(%b, %y, %x)"},
    // casts
    {"%p = cast(%h) {dtype = f32}\n%r = cast(%p) {dtype = bf16}", "%h"},
    {"%p = cast(%u) {dtype = i32}\n%r = cast(%p) {dtype = f32}", "%r = cast(%u) {dtype = f32}"},
    {"%p = cast(%b) {dtype = f32}\n%r = cast(%p) {dtype = bool}", "%b"},
    {"%p = cast(%x) {dtype = f64}\n%r = cast(%p) {dtype = bf16}", "%r = cast(%x) {dtype = bf16}"},
    // views
    {"%p = reshape(%x) {shape = (3*n)}\n%r = reshape(%p) {shape = (n, 3)}", "%x"},
    {"%p = reshape(%x) {shape = (3*n)}\n%r = reshape(%p) {shape = (3, n)}", "%r = reshape(%x) {shape = (3, n)}"},
    {"%r = permute(%x) {dims = [0, 1]}", "%x"},
    {"%p = permute(%v) {dims = [2, 0, 1]}\n%r = permute(%p) {dims = [1, 0, 2]}", "%r = permute(%v) {dims = [0, 2, 1]}"},
    {"%p = permute(%v) {dims = [2, 0, 1]}\n%r = permute(%p) {dims = [1, 2, 0]}", "%v"},
    {"%r = permute(%s) {dims = [1, 0, 3, 2]}", "%r = reshape(%s) {shape = (n, 1, 3, 1)}"},
    {"%p = broadcast(%s) {shape = (2, n, 5, 3)}\n%r = permute(%p) {dims = [0, 3, 1, 2]}",
     "%p = permute(%s) {dims = [0, 3, 1, 2]}\n%r = broadcast(%p) {shape = (2, 3, n, 5)}"},
    {"%r = broadcast(%x) {shape = (n, 3)}", "%x"},
    {"%p = broadcast(%s) {shape = (2, n, 1, 3)}\n%r = broadcast(%p) {shape = (2, n, 5, 3)}",
     "%r = broadcast(%s) {shape = (2, n, 5, 3)}"},
    {"%p = fill {value = 1.0} : f32[]\n%q = reshape(%p) {shape = (1, 1)}\n%r = broadcast(%q) {shape = (n, 3)}", "%one"},
    {"%r = slice(%x) {starts = (0, 0), sizes = (n, 3), steps = [1, 1]}", "%x"},
    {"%p = slice(%w) {starts = (1), sizes = (5), steps = [2]}\n%r = slice(%p) {starts = (1), sizes = (2), steps = [2]}",
     "%r = slice(%w) {starts = (3), sizes = (2), steps = [4]}"},
    {"%p = concat(%x, %y, %x) {dim = 0}\n%r = slice(%p) {starts = (n, 0), sizes = (n, 3), steps = [1, 1]}", "%y"},
    {"%p = concat(%x, %y, %x) {dim = 1}\n%r = slice(%p) {starts = (0, 3), sizes = (n, 6), steps = [1, 1]}",
     "%r = concat(%y, %x) {dim = 1}"},
    {"%p = concat(%x, %y) {dim = 1}\n%r = slice(%p) {starts = (0, 3), sizes = (n, 2), steps = [1, 1]}",
     "%p = concat(%x, %y) {dim = 1}\n%r = slice(%p) {starts = (0, 3), sizes = (n, 2), steps = [1, 1]}"},
    {"%r = pad(%x) {low = (0, 0), high = (0, 0), value = 1.0}", "%x"},
    {"%r = flip(%s) {dims = [0, 2]}", "%s"},
    {"%p = flip(%x) {dims = [0, 1]}\n%r = flip(%p) {dims = [1, 0]}", "%x"},
    {"%r = concat(%x) {dim = 0}", "%x"},
    {"%e = slice(%x) {starts = (0, 1), sizes = (n, 0), steps = [1, 1]}\n%r = concat(%x, %e, %y) {dim = 1}",
     "%r = concat(%x, %y) {dim = 1}"},
    // reductions
    {"%r = reduce_sum(%s) {dims = [0, 2]}", "%r = reshape(%s) {shape = (n, 3)}"},
    {"%r = reduce_max(%x) {dims = []}", "%x"},
    {"%p = slice(%x) {starts = (0, 0), sizes = (n, 0), steps = [1, 1]}\n"
     "%q = slice(%x) {starts = (0, 0), sizes = (0, 3), steps = [1, 1]}\n%r = matmul(%p, %q)",
     "%r = fill {value = 0.0} : f32[n, 3]"},
    {"%p = reduce_max(%s) {dims = [1]}\n%r = reduce_max(%p) {dims = [2]}", "%r = reduce_max(%s) {dims = [1, 3]}"},
};

TEST(SimplifyTest, EquationsHold) {
  for (const Equation& e : kEquations) {
    SCOPED_TRACE(e.before);
    std::string before = Program(e.before, "%r");
    bool nodes = std::string(e.after).find('=') != std::string::npos;
    std::string after = nodes ? Program(e.after, "%r") : Program("", e.after);
    EXPECT_EQ(After(Simplify, before), Canonical(after));
    for (unsigned seed = 0; seed < 3; ++seed) ExpectSameResults(Parsed(before), Parsed(after), e.tolerance, seed, true);
  }
}

// Tempting, and wrong for NaN, infinities, signed zeros or rounding.
TEST(SimplifyTest, WhatFloatsForbidStays) {
  const char* const kept[] = {
      "%r = add(%x, %zero)",                                        // -0.0 + 0.0 is 0.0
      "%r = mul(%x, %zero)",                                        // NaN, infinities, -0.0
      "%r = sub(%x, %x)",                                           // NaN, infinities
      "%r = div(%x, %x)",                                           // 0, NaN, infinities
      "%r = div(%x, %three)",                                       // 1/3 is rounded
      "%r = eq(%x, %x)",                                            // NaN
      "%p = lt(%x, %y)\n%r = not(%p)",                              // NaN
      "%p = sub(%x, %y)\n%r = neg(%p)",                             // the sign of zero
      "%p = cast(%x) {dtype = bf16}\n%r = cast(%p) {dtype = f32}",  // rounds
      "%p = cast(%i) {dtype = f32}\n%r = cast(%p) {dtype = i32}",   // rounds above 2^24
      "%p = reduce_sum(%x) {dims = [0]}\n%r = reduce_sum(%p) {dims = [0]}",
  };
  for (const char* nodes : kept)
    EXPECT_EQ(After(Simplify, Program(nodes, "%r")), Canonical(Program(nodes, "%r"))) << nodes;
}

// An empty slice of a stepped one may begin where the whole has no place.
TEST(SimplifyTest, EmptySliceOfSteppedSliceIsNoError) {
  const char text[] =
      "%w = input user f32[10]\n%p = slice(%w) {starts = (0), sizes = (4), steps = [3]}\n"
      "%r = slice(%p) {starts = (4), sizes = (0), steps = [1]}\noutput %r\n";
  EXPECT_EQ(After(Simplify, text), Canonical(text));
}

TEST(SimplifyTest, RulesFeedEachOther) {
  EXPECT_EQ(After(Simplify, Program("%p = neg(%x)\n%q = mul(%p, %minus_one)\n%t = add(%q, %minus_zero)\n"
                                    "%e = cast(%t) {dtype = f64}\n%r = cast(%e) {dtype = f32}",
                                    "%r")),
            Canonical(Program("", "%x")));
}

}  // namespace
}  // namespace preheat::passes
