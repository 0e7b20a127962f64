#include "compiler/ir/evaluate.h"

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/scalar.h"
#include "compiler/ir/test_tensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace preheat::ir {
namespace {

using ::testing::HasSubstr;

std::string Text(const HostTensor& t) {
  std::vector<std::string> items;
  for (int64_t i = 0; i < t.elements(); ++i) {
    items.push_back(IsFloat(t.dtype) ? absl::StrFormat("%g", t.Float(i)) : absl::StrCat(t.Int(i)));
  }
  return absl::StrJoin(items, " ");
}

// %x holds the numbers, `nodes` define %out: what it holds.
std::string Result(const std::string& type, std::vector<double> x, const std::string& nodes) {
  absl::StatusOr<Graph> graph = ParseGraph(absl::StrCat("%x = input user ", type, "\n", nodes, "\noutput %out"));
  if (!graph.ok()) return std::string(graph.status().message());
  const TensorType& input = graph->inputs()[0].type;
  HostTensor tensor = HostTensor::Zeros(input.dtype, *ConcreteShape(input.shape, {}));
  for (size_t i = 0; i < x.size(); ++i) {
    IsFloat(input.dtype) ? tensor.SetFloat(i, x[i]) : tensor.SetInt(i, static_cast<int64_t>(x[i]));
  }
  absl::StatusOr<std::vector<HostTensor>> results = Evaluate(*graph, {tensor}, {});
  return results.ok() ? Text((*results)[0]) : std::string(results.status().message());
}

TEST(ScalarTest, EverySixteenBitFloatRoundTrips) {
  for (int bits = 0; bits < 1 << 16; ++bits) {
    double half = DecodeF16(bits), brain = DecodeBF16(bits);
    ASSERT_TRUE(std::isnan(half) || EncodeF16(half) == bits) << bits;
    ASSERT_TRUE(std::isnan(brain) || EncodeBF16(brain) == bits) << bits;
  }
}

TEST(ScalarTest, RoundsToNearestEven) {
  EXPECT_EQ(RoundTo(DType::kF16, 2049), 2048);  // halfway: to the even neighbour
  EXPECT_EQ(RoundTo(DType::kF16, 2051), 2052);
  EXPECT_EQ(RoundTo(DType::kF16, 65519), 65504);
  EXPECT_TRUE(std::isinf(RoundTo(DType::kF16, 65520)));
  EXPECT_EQ(RoundTo(DType::kF16, std::ldexp(1, -25)), 0);  // halfway to the least subnormal
  EXPECT_EQ(RoundTo(DType::kF16, std::ldexp(1.5, -25)), std::ldexp(1, -24));
  EXPECT_EQ(RoundTo(DType::kBF16, 257), 256);
  EXPECT_EQ(RoundTo(DType::kBF16, 259), 260);
  EXPECT_TRUE(std::isinf(RoundTo(DType::kBF16, -3.4e38)));
}

TEST(EvaluateTest, Pointwise) {
  const double inf = INFINITY, nan = NAN;
  EXPECT_EQ(Result("f32[4]", {-2, 0.5, -0.0, nan}, "%out = sign(%x)"), "-1 1 0 0");
  EXPECT_EQ(Result("f32[4]", {0.5, 1.5, -2.5, inf}, "%out = round(%x)"), "0 2 -2 inf");
  EXPECT_EQ(Result("f32[2]", {1, nan}, "%y = fill {value = 3.0} : f32[2]\n%out = max(%y, %x)"), "3 nan");
  EXPECT_EQ(Result("f32[2]", {5, -5}, "%y = fill {value = 3.0} : f32[2]\n%out = mod(%x, %y)"), "2 1");
  EXPECT_EQ(Result("f32[2]", {5, -5}, "%y = fill {value = 3.0} : f32[2]\n%out = fmod(%x, %y)"), "2 -2");
  EXPECT_EQ(Result("f32[2]", {5, -5}, "%y = fill {value = 3.0} : f32[2]\n%out = floor_div(%x, %y)"), "1 -2");
  EXPECT_EQ(Result("i32[2]", {5, -5}, "%y = fill {value = 3} : i32[2]\n%out = div(%x, %y)"), "1 -1");
  EXPECT_EQ(Result("i32[2]", {5, -5}, "%y = fill {value = 3} : i32[2]\n%out = floor_div(%x, %y)"), "1 -2");
  EXPECT_EQ(Result("i32[2]", {5, -5}, "%y = fill {value = 3} : i32[2]\n%out = pow(%x, %y)"), "125 -125");
  EXPECT_EQ(Result("i8[2]", {100, -128}, "%out = neg(%x)"), "-100 -128") << "wraps";
  EXPECT_EQ(Result("u8[2]", {200, 1}, "%out = add(%x, %x)"), "144 2") << "wraps";
  EXPECT_EQ(Result("i8[3]", {1, -3, 7}, "%y = fill {value = 8} : i8[3]\n%out = shr(%x, %y)"), "0 -1 0");
  EXPECT_EQ(Result("bool[2]", {0, 1}, "%out = not(%x)"), "1 0");
  EXPECT_EQ(Result("f32[4]", {-1.9, 1.9, 0, nan}, "%out = cast(%x) {dtype = bool}"), "1 1 0 1");
  EXPECT_EQ(Result("f32[2]", {-1.9, 300.5}, "%out = cast(%x) {dtype = i32}"), "-1 300");
  EXPECT_EQ(Result("f32[1]", {1}, "%y = fill {value = 2.0} : f32[1]\n%n = nextafter(%x, %y)\n%out = sub(%n, %x)"),
            "1.19209e-07");
  EXPECT_EQ(Result("bf16[1]", {1}, "%y = fill {value = 0.0} : bf16[1]\n%n = nextafter(%x, %y)\n%out = sub(%x, %n)"),
            "0.00390625");
}

TEST(EvaluateTest, WhatSetsTheErrorWordIsOutOfRange) {
  EXPECT_THAT(Result("i32[1]", {5}, "%y = fill {value = 0} : i32[1]\n%out = div(%x, %y)"),
              HasSubstr("divided by zero"));
  EXPECT_THAT(Result("i64[1]", {3}, "%y = iota {dim = 0} : f32[3]\n%out = take(%y, %x) {dim = 0}"),
              HasSubstr("the index 3 is out of range for a size of 3"));
  for (const char* op : {"floor_div", "mod", "fmod"}) {
    EXPECT_THAT(Result("i32[1]", {5}, absl::StrCat("%y = fill {value = 0} : i32[1]\n%out = ", op, "(%x, %y)")),
                HasSubstr("divided by zero"))
        << op;
  }
}

TEST(EvaluateTest, NegativeIndicesCountFromTheEndUnlessItIsSaid) {
  const std::string take = "%y = iota {dim = 0} : f32[3]\n%out = take(%y, %x) {dim = 0";
  EXPECT_EQ(Result("i64[2]", {-1, -3}, take + "}"), "2 0");
  EXPECT_EQ(Result("i64[2]", {1, 2}, take + ", from_end = 0}"), "1 2");
  EXPECT_THAT(Result("i64[2]", {0, -1}, take + ", from_end = 0}"), HasSubstr("the index -1 is out of range"));
  EXPECT_THAT(Result("i64[2]", {0, 1}, take + ", from_end = 1}"), HasSubstr("from_end"));
}

TEST(EvaluateTest, Reductions) {
  EXPECT_EQ(Result("f32[2, 3]", {1, 2, 3, 4, 5, 6}, "%out = reduce_sum(%x) {dims = [0]}"), "5 7 9");
  EXPECT_EQ(Result("f32[2, 3]", {1, 2, 3, 4, NAN, 6}, "%out = reduce_max(%x) {dims = [1]}"), "3 nan");
  EXPECT_EQ(Result("f32[0, 2]", {}, "%out = reduce_prod(%x) {dims = [0]}"), "1 1");
  EXPECT_EQ(Result("f32[2, 3]", {1, 5, 5, NAN, 9, NAN}, "%out = argmax(%x) {dim = 1}"), "1 0");
  EXPECT_EQ(Result("i32[3]", {-3, -3, 1}, "%out = argmin(%x) {dim = 0}"), "0");
  EXPECT_EQ(Result("f32[2, 2]", {1, 2, 3, 4}, "%out = scan_sum(%x) {dim = 0}"), "1 2 4 6");
  EXPECT_EQ(Result("f32[4]", {2, NAN, 1, 2}, "%out = sort(%x) {dim = 0, descending = 0}"), "1 2 2 nan");
  EXPECT_EQ(
      Result("f32[4]", {2, NAN, 1, 2}, "%s = sort(%x) {dim = 0, descending = 1}\n%out = cast(%s.1) {dtype = i32}"),
      "1 0 3 2");
}

TEST(EvaluateTest, Views) {
  const std::vector<double> six = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(Result("f32[2, 3]", six, "%out = permute(%x) {dims = [1, 0]}"), "0 3 1 4 2 5");
  EXPECT_EQ(Result("f32[1, 2]", {7, 8}, "%out = broadcast(%x) {shape = (2, 2)}"), "7 8 7 8");
  EXPECT_EQ(Result("f32[2, 3]", six, "%out = slice(%x) {starts = (1, 0), sizes = (1, 2), steps = [1, 2]}"), "3 5");
  EXPECT_EQ(Result("f32[3]", {1, 2, 3}, "%out = pad(%x) {low = (1), high = (2), value = 9.0}"), "9 1 2 3 9 9");
  EXPECT_EQ(Result("f32[2, 3]", six, "%out = flip(%x) {dims = [1]}"), "2 1 0 5 4 3");
  EXPECT_EQ(Result("f32[6]", six, "%out = window(%x) {dim = 0, size = 2, step = 3, dilation = 2}"), "0 2 3 5");
  EXPECT_EQ(Result("f32[2, 1]", {1, 2}, "%y = fill {value = 0.0} : f32[2, 1]\n%out = concat(%x, %y) {dim = 1}"),
            "1 0 2 0");
}

TEST(EvaluateTest, Indexed) {
  const std::string table = "%t = iota {dim = 0} : f32[4, 2]\n";
  EXPECT_EQ(Result("i64[3]", {0, -1, 2}, table + "%out = take(%t, %x) {dim = 0}"), "0 0 3 3 2 2");
  EXPECT_EQ(Result("i64[1, 2]", {3, 1}, table + "%out = gather(%t, %x) {dim = 0}"), "3 1");
  EXPECT_EQ(Result("i64[2, 2]", {0, 1, 0, 1},
                   table + "%s = fill {value = 10.0} : f32[2, 2]\n"
                           "%out = scatter(%t, %x, %s) {dim = 0, reduce = \"add\"}"),
            "20 0 1 21 2 2 3 3");
  EXPECT_EQ(Result("i64[2]", {1, -1},
                   table + "%s = fill {value = 7.0} : f32[2, 2]\n"
                           "%out = put_rows(%t, %x, %s) {dim = 0, reduce = \"set\"}"),
            "0 0 7 7 2 2 7 7");
}

TEST(EvaluateTest, Library) {
  EXPECT_EQ(Result("f32[2, 2]", {1, 2, 3, 4}, "%out = matmul(%x, %x)"), "7 10 15 22");
  EXPECT_EQ(Result("i32[1, 2, 2]", {1, 2, 3, 4}, "%out = matmul(%x, %x)"), "7 10 15 22");
  const std::string conv =
      "stride = [1], padding = [1], dilation = [1], output_padding = [0], groups = 1, transposed = 0";
  const std::string w = "%w = iota {dim = 2} : f32[1, 1, 3]\n";  // 0 1 2
  EXPECT_EQ(Result("f32[1, 1, 4]", {1, 2, 3, 4}, w + "%out = conv(%x, %w) {" + conv + "}"), "5 8 11 4");
  EXPECT_EQ(Result("f32[1, 1, 4]", {1, 0, 0, 0}, w + "%out = conv_grad_input(%x, %w) {" + conv + "} : f32[1, 1, 4]"),
            "1 2 0 0");
  EXPECT_EQ(Result("f32[1, 1, 4]", {1, 2, 3, 4}, "%out = conv_grad_weight(%x, %x) {" + conv + "} : f32[1, 1, 3]"),
            "20 30 20");
  const std::string up =
      "stride = [2], padding = [0], dilation = [1], output_padding = [0], groups = 1, transposed = 1";
  EXPECT_EQ(Result("f32[1, 1, 2]", {1, 10}, w + "%out = conv(%x, %w) {" + up + "}"), "0 1 2 10 20");
  EXPECT_EQ(Result("f32[2, 2]", {1, 2, 3, 4},
                   "%b = fill {value = -12.0} : f32[2]\n"
                   "%out = fused(%x, %x, %b, %x) {base = \"matmul\", epilogue = {\"bias\", \"relu\", \"residual\"}} : "
                   "f32[2, 2]"),
            "1 2 6 14");
}

// A gradient is the adjoint: <conv(x, w), g> = <x, grad_input(g, w)> = <w, grad_weight(g, x)>.
TEST(EvaluateTest, ConvolutionGradientsAreAdjoint) {
  for (int transposed : {0, 1}) {
    const std::string attrs = absl::StrCat("{stride = [2, 1], padding = [1, 2], dilation = [1, 2], output_padding = [",
                                           transposed, ", 0], groups = 2, transposed = ", transposed, "}");
    std::string w = transposed ? "f64[4, 3, 3, 2]" : "f64[6, 2, 3, 2]";
    std::string head = absl::StrCat("%x = input user f64[2, 4, 6, 5]\n%w = input user ", w, "\n");
    absl::StatusOr<Graph> shape = ParseGraph(absl::StrCat(head, "%y = conv(%x, %w) ", attrs));
    ASSERT_TRUE(shape.ok()) << shape.status();
    std::string y = shape->nodes().back().results()[0].ToString();
    std::string text =
        absl::StrCat(head, "%g = input user ", y, "\n%y = conv(%x, %w) ", attrs, "\n%gx = conv_grad_input(%g, %w) ",
                     attrs, " : f64[2, 4, 6, 5]\n%gw = conv_grad_weight(%g, %x) ", attrs, " : ", w, "\n");
    int product = 0;
    for (const char* pair : {"%y, %g", "%gx, %x", "%gw, %w"}) {
      ++product;
      absl::StrAppend(&text, "%p", product, " = mul(", pair, ")\n%s", product, " = reduce_sum(%p", product,
                      ") {dims = [0, 1, 2, 3]}\noutput %s", product, "\n");
    }
    absl::StatusOr<Graph> graph = ParseGraph(text);
    ASSERT_TRUE(graph.ok()) << graph.status() << text;
    auto results = Evaluate(*graph, RandomInputs(*graph, {}, 3), {});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_NEAR((*results)[0].Float(0), (*results)[1].Float(0), 1e-9);
    EXPECT_NEAR((*results)[0].Float(0), (*results)[2].Float(0), 1e-9);
  }
}

TEST(EvaluateTest, EveryOperatorButExternHasAValue) {
  std::ifstream file(PREHEAT_SOURCE_DIR "/tests/ir/every_op.hir");
  std::stringstream text;
  text << file.rdbuf();
  absl::StatusOr<Graph> graph = ParseGraph(text.str());
  ASSERT_TRUE(graph.ok()) << graph.status();
  SymbolValues symbols = {{"n", 3}, {"s", 5}};
  std::vector<HostTensor> inputs = RandomInputs(*graph, symbols, 1);
  inputs[10].data.assign(inputs[10].data.size(), '\0');  // %rows
  std::vector<std::vector<HostTensor>> values;
  for (const Node& node : graph->nodes()) {
    if (node.op() == Op::kInput) {
      values.push_back({inputs[node.Int("index")]});
      continue;
    }
    std::vector<const HostTensor*> operands;
    for (const Value& v : node.operands()) operands.push_back(&values[v.node->id()][v.index]);
    auto results = EvaluateNode(node, operands, symbols);
    if (node.op() == Op::kExtern) {
      EXPECT_EQ(results.status().code(), absl::StatusCode::kUnimplemented);
      values.emplace_back();
      continue;
    }
    ASSERT_TRUE(results.ok()) << results.status();
    for (const HostTensor& t : *results)
      EXPECT_EQ(static_cast<int64_t>(t.data.size()), t.elements() * DTypeSize(t.dtype));
    values.push_back(*std::move(results));
  }
}

TEST(EvaluateTest, AnExternCallWithoutResultsHasNoValueEither) {
  const std::string call = R"(%c = extern(%x) {name = "aten._assert_async.msg", call = ""})";
  EXPECT_EQ(Result("f32[1]", {1}, call + "\n%out = neg(%x)"),
            R"(%1 = extern(%0) {call = "", name = "aten._assert_async.msg"}: extern has no evaluation)");
}

}  // namespace
}  // namespace preheat::ir
