#include "kernels/library/attention.h"

#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device/cpu_device.h"
#include "kernels/library/naive.h"
#include "kernels/library/providers.h"

namespace preheat::library {
namespace {

using Random = std::mt19937;
constexpr int32_t kF32 = static_cast<int32_t>(DType::kF32), kBool = static_cast<int32_t>(DType::kBool);
constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t Pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// [b..., rows, columns], row-major or with rows and columns exchanged; now and then the batch is one matrix seen often.
TensorSpec Stack(Random& random, int32_t dtype, const std::vector<int64_t>& batch, int64_t rows, int64_t columns,
                 bool may_broadcast) {
  TensorSpec t{dtype, batch, std::vector<int64_t>(batch.size() + 2, 0)};
  t.sizes.insert(t.sizes.end(), {rows, columns});
  const size_t rank = t.sizes.size();
  const bool exchanged = Pick(random, 0, 2) == 0;
  t.strides[rank - 1] = exchanged ? rows : 1;
  t.strides[rank - 2] = exchanged ? 1 : columns;
  int64_t next = rows * columns;
  for (size_t i = rank - 2; i-- > 0; next *= t.sizes[i]) {
    if (!may_broadcast || Pick(random, 0, 2) != 0) t.strides[i] = next;
  }
  return t;
}

struct Sizes {
  int64_t m, n, e, f;
};

CallSpec RandomCall(Random& random, Sizes s) {
  std::vector<int64_t> batch(Pick(random, 0, 2));
  for (int64_t& size : batch) size = Pick(random, 1, 3);
  CallSpec call;
  call.op = PREHEAT_LIB_ATTENTION;
  call.scale = 1 / std::sqrt(static_cast<double>(s.e + 1));
  call.operands[0] = Stack(random, kF32, batch, s.m, s.e, true);
  call.operands[1] = Stack(random, kF32, batch, s.e, s.n, true);
  call.result = Stack(random, kF32, batch, s.m, s.f, false);
  for (int64_t masks = Pick(random, -1, 2); masks > 0; --masks) {
    call.epilogue.push_back(
        {PREHEAT_LIB_MASK, Stack(random, Pick(random, 0, 1) ? kF32 : kBool, batch, s.m, s.n, true)});
  }
  if (Pick(random, 0, 2) == 0) call.epilogue.push_back({PREHEAT_LIB_CAUSAL, {}});
  call.epilogue.push_back({static_cast<int32_t>(Pick(random, PREHEAT_LIB_SOFTMAX, PREHEAT_LIB_SAFE_SOFTMAX)), {}});
  call.epilogue.push_back({PREHEAT_LIB_VALUES, Stack(random, kF32, batch, s.n, s.f, true)});
  return call;
}

HostData Filled(Random& random, const TensorSpec& spec) {
  HostData data(spec);
  std::normal_distribution<double> normal;
  const int64_t count = static_cast<int64_t>(data.bytes.size()) / SizeOfDType(spec.dtype);
  for (int64_t i = 0; i < count; ++i) {
    data.Set(i, spec.dtype == kBool ? static_cast<double>(Pick(random, 0, 3) != 0) : normal(random));
  }
  return data;
}

// Weights of one row, by the definition.
std::vector<double> WeightsOf(const CallSpec& call, const HostData& q, const HostData& k,
                              const std::vector<HostData>& epilogue, std::vector<int64_t> index) {
  const size_t rank = index.size();
  const int64_t n = call.operands[1].sizes[rank - 1], row = index[rank - 2];
  std::vector<double> scores(n, 0);
  double max = -kInfinity, total = 0;
  bool safe = false;
  for (int64_t j = 0; j < n; ++j) {
    std::vector<int64_t> left = index, right = index, at = index;
    right[rank - 1] = at[rank - 1] = j;
    for (int64_t c = 0; c < call.operands[0].sizes[rank - 1]; ++c) {
      left[rank - 1] = right[rank - 2] = c;
      scores[j] += q.Get(OffsetOf(q.spec, left)) * k.Get(OffsetOf(k.spec, right));
    }
    scores[j] *= call.scale;
    for (size_t i = 0; i < call.epilogue.size(); ++i) {
      const int32_t op = call.epilogue[i].op;
      safe |= op == PREHEAT_LIB_SAFE_SOFTMAX;
      if (op == PREHEAT_LIB_CAUSAL && j > row) scores[j] = -kInfinity;
      if (op != PREHEAT_LIB_MASK) continue;
      const double mask = epilogue[i].Get(OffsetOf(epilogue[i].spec, at));
      scores[j] = epilogue[i].spec.dtype != kBool ? scores[j] + mask : mask != 0 ? scores[j] : -kInfinity;
    }
    max = std::max(max, scores[j]);
  }
  for (double& s : scores) total += s = max == -kInfinity ? 0 : std::exp(s - max);
  for (double& s : scores) s = total == 0 ? (safe ? 0 : std::nan("")) : s / total;
  return scores;
}

void CheckRow(const CallSpec& call, const HostData& got, const std::vector<double>& weights, const HostData& v,
              std::vector<int64_t> index) {
  const size_t rank = index.size();
  for (int64_t c = 0; c < call.result.sizes[rank - 1]; ++c) {
    std::vector<int64_t> at = index;
    at[rank - 1] = c;
    double expected = 0, magnitude = 0;
    for (size_t j = 0; j < weights.size(); ++j) {
      std::vector<int64_t> value = at;
      value[rank - 2] = static_cast<int64_t>(j);
      const double term = weights[j] * v.Get(OffsetOf(v.spec, value));
      expected += term;
      magnitude += std::abs(term);
    }
    const double result = got.Get(OffsetOf(call.result, at));
    if (std::isnan(expected) && std::isnan(result)) continue;
    ASSERT_LE(std::abs(result - expected), 0x1p-19 * (magnitude + 1e-3)) << result << " not " << expected;
  }
}

HostData RunCall(const CallSpec& call, const HostData& q, const HostData& k, const std::vector<HostData>& epilogue) {
  HostData result(call.result);
  absl::StatusOr<std::unique_ptr<PreparedCall>> prepared = Prepare(call, "");
  EXPECT_TRUE(prepared.ok()) << prepared.status();
  if (!prepared.ok()) return result;
  std::vector<const void*> pointers;
  for (const HostData& data : epilogue) pointers.push_back(data.bytes.data());
  preheat_lib_addresses addresses = {};
  addresses.operands[0] = q.bytes.data();
  addresses.operands[1] = k.bytes.data();
  addresses.epilogue = pointers.data();
  addresses.result = result.bytes.data();
  addresses.scratch = AllocateAligned((*prepared)->scratch_bytes());
  EXPECT_TRUE((*prepared)->Run(addresses).ok());
  FreeAligned(addresses.scratch);
  return result;
}

void CheckRandomCall(unsigned seed, Sizes sizes) {
  Random random(seed);
  const CallSpec call = RandomCall(random, sizes);
  const HostData q = Filled(random, call.operands[0]), k = Filled(random, call.operands[1]);
  std::vector<HostData> epilogue;
  for (const EpilogueSpec& step : call.epilogue) {
    const TensorSpec none{kF32, {1}, {1}};
    epilogue.push_back(Filled(random, TakesOperand(step.op) ? step.operand : none));
  }
  const HostData result = RunCall(call, q, k, epilogue);
  std::vector<int64_t> rows = call.result.sizes;
  rows.back() = rows.back() > 0 ? 1 : 0;
  ForEachIndex(rows, [&](const std::vector<int64_t>& index) {
    if (testing::Test::HasFailure()) return;
    CheckRow(call, result, WeightsOf(call, q, k, epilogue, index), epilogue.back(), index);
  });
}

TEST(Attention, RandomCallsAgreeWithTheDefinition) {
  for (unsigned seed = 0; seed < 150 && !HasFailure(); ++seed) {
    Random random(seed);
    const Sizes s{Pick(random, 0, 70), Pick(random, 0, 90), Pick(random, 0, 40), Pick(random, 0, 40)};
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", s.m, " ", s.n, " ", s.e, " ", s.f));
    CheckRandomCall(seed, s);
  }
}

TEST(Attention, LongRowsAreWalkedInBlocks) {
  for (unsigned seed = 0; seed < 8 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    CheckRandomCall(seed, {525, 530, 5, 3});
  }
}

TEST(Attention, ScoresOfAnySizeStayFinite) {
  const TensorSpec matrix{kF32, {3, 3}, {3, 1}};
  CallSpec call;
  call.op = PREHEAT_LIB_ATTENTION;
  call.operands[0] = call.operands[1] = call.result = matrix;
  call.epilogue = {{PREHEAT_LIB_SOFTMAX, {}}, {PREHEAT_LIB_VALUES, matrix}};
  HostData q(matrix), k(matrix), v(matrix);
  for (int64_t i = 0; i < 9; ++i) {
    q.Set(i, i % 4 == 0 ? 1e15 : 0);
    k.Set(i, i % 4 == 0 ? 1e15 : 0);
    v.Set(i, static_cast<double>(i));
  }
  const HostData result = RunCall(call, q, k, {v, v});
  for (int64_t i = 0; i < 9; ++i) EXPECT_EQ(result.Get(i), static_cast<double>(i));
}

TEST(Attention, WhatIsNoAttentionIsRefused) {
  Random random(1);
  CallSpec call = RandomCall(random, {4, 5, 3, 2});
  ASSERT_TRUE(CheckCall(call).ok()) << CheckCall(call);
  CallSpec no_values = call, two_softmaxes = call, wide = call, other = call;
  no_values.epilogue.pop_back();
  two_softmaxes.epilogue.insert(two_softmaxes.epilogue.begin(), {PREHEAT_LIB_SOFTMAX, {}});
  wide.epilogue.back().operand.sizes.back() += 1;
  other.result.dtype = static_cast<int32_t>(DType::kF64);
  for (const CallSpec* bad : {&no_values, &two_softmaxes, &wide, &other}) {
    EXPECT_EQ(CheckCall(*bad).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace preheat::library
