#include "client/torch/preheat_torch.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <string>
#include <vector>

#include "client/torch/read_call.h"
#include "compiler/capture/aten_program.h"
#include "compiler/support/error.h"

namespace preheat {
namespace {

using ::testing::HasSubstr;

// A tensor as the runtime hands it over; keeps sizes and strides alive.
struct Lent {
  explicit Lent(const at::Tensor& t) : sizes(t.sizes().vec()), strides(t.strides().vec()) {
    const bool integer = t.scalar_type() == at::kLong;
    tensor = {t.data_ptr(),
              integer ? 5 : 8,
              static_cast<int32_t>(sizes.size()),
              sizes.data(),
              strides.data(),
              PREHEAT_CPU,
              0};
  }
  std::vector<int64_t> sizes, strides;
  preheat_tensor tensor{};
};

preheat_status* Call(const char* text, const std::vector<preheat_tensor>& operands,
                     const std::vector<preheat_tensor>& results) {
  preheat_extern_call call{"aten.op", text, operands.data(), operands.size(), results.data(), results.size(),
                           nullptr,   0,    nullptr};
  return preheat_torch_extern(nullptr, &call);
}

TEST(PreheatTorch, RunsAnOperatorOnTheRuntimesMemory) {
  at::Tensor x = at::randn({4, 3}).t(), values = at::empty({3, 4}), indices = at::empty({3, 4}, at::kLong);
  Lent a(x), v(values), i(indices);
  preheat_status* status = Call(
      R"({"op":"aten.sort.stable","args":[{"n":"self","v":{"t":0}},{"n":"stable","v":true,"k":1},{"n":"descending","v":true}],"list":false,"none":[]})",
      {a.tensor}, {v.tensor, i.tensor});
  ASSERT_EQ(status, nullptr) << preheat_status_message(status);
  EXPECT_TRUE(values.equal(std::get<0>(x.sort(true, -1, true))));
  EXPECT_TRUE(indices.equal(std::get<1>(x.sort(true, -1, true))));
}

TEST(PreheatTorch, SkipsResultsThatTheProgramDoesNotTake) {
  at::Tensor x = at::randn({5}), indices = at::empty({5}, at::kLong);
  Lent a(x), i(indices);
  ASSERT_EQ(Call(R"({"op":"aten.sort.default","args":[{"n":"self","v":{"t":0}}],"list":false,"none":[0]})", {a.tensor},
                 {i.tensor}),
            nullptr);
  EXPECT_TRUE(indices.equal(std::get<1>(x.sort())));
}

TEST(PreheatTorch, ErrorsCarryTorchsWords) {
  at::Tensor x = at::randn({2, 3}), y = at::empty({2, 2});
  Lent a(x), r(y);
  preheat_status* status = Call(
      R"({"op":"aten.mm.default","args":[{"n":"self","v":{"t":0}},{"n":"mat2","v":{"t":0}}]})", {a.tensor}, {r.tensor});
  ASSERT_NE(status, nullptr);
  EXPECT_THAT(preheat_status_message(status), HasSubstr("shapes cannot be multiplied"));
  preheat_status_free(status);
  status = Call(R"({"op":"aten.relu.default","args":[{"n":"self","v":{"t":0}}]})", {a.tensor}, {r.tensor});
  ASSERT_NE(status, nullptr);
  EXPECT_STREQ(preheat_status_kind(status), "result_mismatch");
  preheat_status_free(status);
  status = Call(R"({"op":"aten.relu.default","args":[{"n":"self","v":{"t":7}}]})", {a.tensor}, {r.tensor});
  ASSERT_NE(status, nullptr);
  EXPECT_STREQ(preheat_status_kind(status), "malformed_call");
  preheat_status_free(status);
}

TEST(ReadCall, EveryKindOfArgument) {
  auto call = ReadExternCall(R"({"op":"o","args":[{"n":"a","v":null},{"n":"b","v":7},{"n":"c","v":{"f":"-inf"}},
      {"n":"d","v":{"ts":[0,null]}},{"n":"e","v":{"is":[1,2]}},{"n":"f","v":{"dtype":"bf16"},"k":1},{"n":"g","v":{"c":["1","0.5"]}}],"none":[2]})");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(std::get<double>(call->arguments[2].value), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(std::get<std::vector<ir::Expr>>(call->arguments[4].value), (std::vector<ir::Expr>{1, 2}));
  EXPECT_EQ(std::get<ir::DType>(call->arguments[5].value), ir::DType::kBF16);
  EXPECT_TRUE(call->arguments[5].keyword);
  EXPECT_EQ(call->skipped, std::set<int>{2});
}

TEST(ReadCall, RefusesOtherText) {
  for (const char* text :
       {"", "[", "{}", R"({"op":"o","args":[{"n":"a","v":{"x":1}}]})", R"({"op":"o","args":[{"n":"a","v":1.5}]})"}) {
    EXPECT_EQ(GetError(ReadExternCall(text).status()).kind, "malformed_call") << text;
  }
}

TEST(PreheatTorch, ReadsTensorsThatTorchSaved) {
  const at::Tensor x = at::arange(6, at::kFloat).view({2, 3}), ids = at::arange(3);
  const std::vector<char> bytes =
      torch::jit::pickle_save(c10::ivalue::Tuple::create({x.t(), c10::List<at::Tensor>({ids})}));
  preheat_torch_file* file = nullptr;
  ASSERT_EQ(preheat_torch_open(bytes.data(), bytes.size(), &file), nullptr);
  ASSERT_EQ(preheat_torch_num_tensors(file), 2u);
  const preheat_tensor t = preheat_torch_tensor(file, 0);
  EXPECT_EQ(t.sizes[0], 3);
  EXPECT_EQ(t.strides[0], 2);
  EXPECT_EQ(static_cast<const float*>(t.data)[1], 3);
  preheat_torch_close(file);
  char* error = preheat_torch_open("nonsense", 8, &file);
  EXPECT_NE(error, nullptr);
  preheat_torch_free(error);
}

TEST(PreheatTorch, TimesAProgram) {
  capture::AtenProgram program;
  program.values.resize(2);
  for (auto& value : program.values) value.type.tensor = {ir::DType::kF32, {2, 2}}, value.type.strides = {2, 1};
  program.inputs.push_back({0});
  capture::AtenNode node;
  node.op = "aten.relu.default";
  node.args = {{"self", capture::ValueRef{0}}};
  node.results = {1};
  program.nodes.push_back(node);
  const at::Tensor x = at::randn({2, 2});
  Lent a(x);
  double median = -1, p99 = -1;
  ASSERT_EQ(preheat_torch_time(&program, &a.tensor, 1, 3, &median, &p99), nullptr);
  EXPECT_GT(median, 0);
  EXPECT_GE(p99, median);
  char* error = preheat_torch_time(&program, nullptr, 0, 1, &median, &p99);
  ASSERT_NE(error, nullptr);
  preheat_torch_free(error);
}

}  // namespace
}  // namespace preheat
