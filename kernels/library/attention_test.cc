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

HostData RunCall(const CallSpec& call, const HostData& q, const HostData& k, const std::vector<HostData>& epilogue,
                 std::vector<HostData>* more_results = nullptr) {
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
  std::vector<void*> more;
  for (size_t i = 0; i < call.more_results.size(); ++i) {
    more_results->emplace_back(call.more_results[i]);
    more.push_back(more_results->back().bytes.data());
  }
  addresses.more_results = more.data();
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

// The gradients by differences of the definition: d(sum of result * g) / d(element) for a few elements.
double Loss(const CallSpec& call, const HostData& q, const HostData& k, const std::vector<HostData>& epilogue,
            const HostData& g) {
  double loss = 0;
  std::vector<int64_t> rows = call.result.sizes;
  rows.back() = 1;
  ForEachIndex(rows, [&](const std::vector<int64_t>& index) {
    const std::vector<double> weights = WeightsOf(call, q, k, epilogue, index);
    for (int64_t c = 0; c < call.result.sizes.back(); ++c) {
      std::vector<int64_t> at = index, value = index;
      at.back() = value.back() = c;
      double sum = 0;
      for (size_t j = 0; j < weights.size(); ++j) {
        value[value.size() - 2] = static_cast<int64_t>(j);
        sum += weights[j] * epilogue.back().Get(OffsetOf(epilogue.back().spec, value));
      }
      loss += sum * g.Get(OffsetOf(g.spec, at));
    }
  });
  return loss;
}

// A forward call, and the gradient's call of the same operands.
struct Pair {
  CallSpec forward, gradient;
  HostData q, k, g, output, log_sums;
  std::vector<HostData> epilogue;  // of forward
};

Pair RandomPair(Random& random, Sizes s) {
  Pair pair;
  CallSpec& call = pair.forward = RandomCall(random, s);
  for (TensorSpec* t : {&call.operands[0], &call.operands[1], &call.epilogue.back().operand}) {
    *t = Stack(random, kF32, {t->sizes.begin(), t->sizes.end() - 2}, t->sizes[t->rank() - 2], t->sizes.back(), false);
  }
  call.epilogue[call.epilogue.size() - 2].op = PREHEAT_LIB_SAFE_SOFTMAX;
  const std::vector<int64_t> batch(call.result.sizes.begin(), call.result.sizes.end() - 2);
  call.more_results = {Stack(random, kF32, batch, s.m, 1, false)};
  pair.q = Filled(random, call.operands[0]);
  pair.k = Filled(random, call.operands[1]);
  for (const EpilogueSpec& step : call.epilogue) {
    pair.epilogue.push_back(Filled(random, TakesOperand(step.op) ? step.operand : TensorSpec{kF32, {1}, {1}}));
  }
  std::vector<HostData> more;
  pair.output = RunCall(call, pair.q, pair.k, pair.epilogue, &more);
  pair.log_sums = more[0];
  pair.g = Filled(random, Stack(random, kF32, batch, s.m, s.f, true));
  CallSpec& grad = pair.gradient = call;
  grad.op = PREHEAT_LIB_ATTENTION_GRAD;
  grad.epilogue.erase(grad.epilogue.end() - 2);
  grad.epilogue.push_back({PREHEAT_LIB_GRADIENT, pair.g.spec});
  grad.epilogue.push_back({PREHEAT_LIB_OUTPUT, call.result});
  grad.epilogue.push_back({PREHEAT_LIB_LOG_SUMS, call.more_results[0]});
  grad.result = Stack(random, kF32, batch, s.m, s.e, false);
  grad.more_results = {Stack(random, kF32, batch, s.n, s.e, false), Stack(random, kF32, batch, s.n, s.f, false)};
  return pair;
}

// `element` of `of`, a part of the pair, has the derivative `got`.
void CheckDerivative(const Pair& pair, HostData& of, int64_t element, double got) {
  const double before = of.Get(element), step = 1.0 / 64;
  of.Set(element, before + step);
  const double above = Loss(pair.forward, pair.q, pair.k, pair.epilogue, pair.g);
  of.Set(element, before - step);
  const double below = Loss(pair.forward, pair.q, pair.k, pair.epilogue, pair.g);
  of.Set(element, before);
  const double want = (above - below) / (2 * step);
  EXPECT_NEAR(got, want, 2e-3 * (std::abs(want) + 1));
}

void CheckGradients(unsigned seed, Sizes sizes) {
  Random random(seed);
  Pair pair = RandomPair(random, sizes);
  std::vector<HostData> epilogue = pair.epilogue, more;
  epilogue.erase(epilogue.end() - 2);
  epilogue.insert(epilogue.end(), {pair.g, pair.output, pair.log_sums});
  const HostData dq = RunCall(pair.gradient, pair.q, pair.k, epilogue, &more);
  if (testing::Test::HasFailure()) return;
  const auto element = [&](const TensorSpec& t) {
    std::vector<int64_t> index;
    for (int64_t size : t.sizes) index.push_back(Pick(random, 0, size - 1));
    return index;
  };
  for (int i = 0; i < 4; ++i) {
    std::vector<int64_t> at = element(dq.spec);
    CheckDerivative(pair, pair.q, OffsetOf(pair.q.spec, at), dq.Get(OffsetOf(dq.spec, at)));
    at = element(more[1].spec);
    CheckDerivative(pair, pair.epilogue.back(), OffsetOf(pair.epilogue.back().spec, at),
                    more[1].Get(OffsetOf(more[1].spec, at)));
    at = element(more[0].spec);
    std::vector<int64_t> transposed = at;
    std::swap(transposed[at.size() - 1], transposed[at.size() - 2]);
    CheckDerivative(pair, pair.k, OffsetOf(pair.k.spec, transposed), more[0].Get(OffsetOf(more[0].spec, at)));
  }
}

TEST(Attention, GradientsAgreeWithDifferences) {
  for (unsigned seed = 0; seed < 60 && !HasFailure(); ++seed) {
    Random random(seed);
    const Sizes s{Pick(random, 1, 20), Pick(random, 1, 20), Pick(random, 1, 40), Pick(random, 1, 40)};
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", s.m, " ", s.n, " ", s.e, " ", s.f));
    CheckGradients(seed, s);
  }
}

TEST(Attention, GradientsOfLongRows) {
  for (unsigned seed = 0; seed < 3 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    CheckGradients(seed, {101, 395, 3, 2});
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
