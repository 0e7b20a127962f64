#include "kernels/library/providers.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device/cpu_device.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/parallel_for.h"
#include "kernels/library/naive.h"

namespace preheat::library {
namespace {

using Random = std::mt19937;

int64_t Pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// Strides of a random order of dimensions with random gaps; now and then dense, now and then with a broadcast
// dimension.
std::vector<int64_t> RandomStrides(Random& random, const std::vector<int64_t>& sizes, bool may_broadcast) {
  std::vector<int> order(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  const int64_t style = Pick(random, 0, 3);  // 0, 1: row major
  if (style >= 2) std::shuffle(order.begin(), order.end(), random);
  std::vector<int64_t> strides(sizes.size(), 0);
  int64_t next = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    if (style == 3 && Pick(random, 0, 3) == 0) next += Pick(random, 0, 3);
    strides[*d] = next;
    next *= std::max<int64_t>(1, sizes[*d]);
  }
  if (may_broadcast && !sizes.empty() && Pick(random, 0, 5) == 0) strides[Pick(random, 0, sizes.size() - 1)] = 0;
  return strides;
}

TensorSpec RandomTensor(Random& random, int32_t dtype, std::vector<int64_t> sizes, bool may_broadcast) {
  std::vector<int64_t> strides = RandomStrides(random, sizes, may_broadcast);
  return {dtype, std::move(sizes), std::move(strides)};
}

CallSpec RandomMatMul(Random& random, int32_t dtype) {
  std::vector<int64_t> batch(Pick(random, 0, 2));
  for (int64_t& size : batch) size = Pick(random, 1, 3);
  const auto size = [&] { return Pick(random, 0, 4) == 0 ? Pick(random, 0, 150) : Pick(random, 1, 40); };
  const int64_t m = size(), n = size(), k = Pick(random, 0, 8) == 0 ? Pick(random, 256, 600) : size();
  const auto shape = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> sizes = batch;
    sizes.push_back(rows);
    sizes.push_back(columns);
    return sizes;
  };
  CallSpec call;
  call.operands[0] = RandomTensor(random, dtype, shape(m, k), true);
  call.operands[1] = RandomTensor(random, dtype, shape(k, n), true);
  call.result = RandomTensor(random, dtype, shape(m, n), false);
  return call;
}

struct ConvShapes {
  std::vector<int64_t> x, w, y;
};

ConvShapes RandomConvShapes(Random& random, CallSpec& call) {
  const int spatial = static_cast<int>(Pick(random, 1, 3));
  call.groups = Pick(random, 0, 1) == 0 ? 1 : Pick(random, 1, 4);
  const int64_t in = Pick(random, 1, spatial == 3 ? 3 : 17), out = Pick(random, 1, spatial == 3 ? 3 : 17);
  const int64_t images = Pick(random, 1, 2);
  ConvShapes shapes{{images, in * call.groups}, {out * call.groups, in}, {images, out * call.groups}};
  for (int d = 0; d < spatial; ++d) {
    const int64_t window = Pick(random, 1, 3), stride = Pick(random, 1, 3), dilation = Pick(random, 1, 2);
    const int64_t span = dilation * (window - 1) + 1;
    const int64_t padding = Pick(random, 0, 4) == 0 ? Pick(random, 0, 2) : Pick(random, 0, (span - 1) / 2);
    const int64_t size = std::max<int64_t>(1, span - 2 * padding) + Pick(random, 0, spatial == 3 ? 4 : 12);
    call.stride.push_back(stride);
    call.padding.push_back(padding);
    call.dilation.push_back(dilation);
    shapes.x.push_back(size);
    shapes.w.push_back(window);
    shapes.y.push_back((size + 2 * padding - span) / stride + 1);
  }
  return shapes;
}

CallSpec RandomConv(Random& random, int32_t op, int32_t dtype) {
  CallSpec call;
  call.op = op;
  call.transposed = Pick(random, 0, 2) == 0;
  ConvShapes shapes = RandomConvShapes(random, call);
  if (call.transposed) std::swap(shapes.x, shapes.y);
  std::vector<int64_t> sizes[3] = {shapes.x, shapes.w, shapes.y};
  if (op == PREHEAT_LIB_CONV_GRAD_INPUT) std::swap(sizes[0], sizes[2]);
  if (op == PREHEAT_LIB_CONV_GRAD_WEIGHT) sizes[0] = shapes.y, sizes[1] = shapes.x, sizes[2] = shapes.w;
  call.operands[0] = RandomTensor(random, dtype, sizes[0], true);
  call.operands[1] = RandomTensor(random, dtype, sizes[1], true);
  call.result = RandomTensor(random, dtype, sizes[2], false);
  return call;
}

bool IsReal(int32_t dtype) { return dtype >= static_cast<int32_t>(DType::kF16); }

EpilogueSpec RandomEpilogue(Random& random, const CallSpec& call, int32_t op) {
  EpilogueSpec step{op, {}};
  if (op == PREHEAT_LIB_BIAS) {
    const int64_t channels = call.op == PREHEAT_LIB_MATMUL ? call.result.sizes.back() : call.result.sizes[1];
    step.operand = RandomTensor(random, call.result.dtype, {channels}, true);
  } else if (op == PREHEAT_LIB_RESIDUAL) {
    step.operand = RandomTensor(random, call.result.dtype, call.result.sizes, true);
    if (Pick(random, 0, 1) == 0) step.operand.strides = call.result.strides;
  }
  return step;
}

// Half of them as networks have them, the others in any mixture.
void AddEpilogues(Random& random, CallSpec& call) {
  const bool may_bias = call.op != PREHEAT_LIB_CONV_GRAD_WEIGHT, real = IsReal(call.result.dtype);
  std::vector<int32_t> ops;
  if (Pick(random, 0, 1) == 0) {
    if (Pick(random, 0, 2) > 0) ops.push_back(PREHEAT_LIB_BIAS);
    const bool residual = Pick(random, 0, 1) == 0;
    if (residual) ops.push_back(PREHEAT_LIB_RESIDUAL);
    if (Pick(random, 0, 1) == 0)
      ops.push_back(residual || !real ? PREHEAT_LIB_RELU : static_cast<int32_t>(Pick(random, 2, 7)));
  } else {
    for (int64_t n = Pick(random, 0, 3); n > 0; --n) ops.push_back(static_cast<int32_t>(Pick(random, 0, real ? 7 : 2)));
  }
  for (int32_t op : ops) {
    if (op != PREHEAT_LIB_BIAS || may_bias) call.epilogue.push_back(RandomEpilogue(random, call, op));
  }
}

CallSpec RandomCall(Random& random, int32_t op, int32_t dtype) {
  CallSpec call = op == PREHEAT_LIB_MATMUL ? RandomMatMul(random, dtype) : RandomConv(random, op, dtype);
  AddEpilogues(random, call);
  call.frozen[1] = op != PREHEAT_LIB_CONV_GRAD_WEIGHT && Pick(random, 0, 1) == 0;
  return call;
}

HostData Filled(Random& random, const TensorSpec& spec) {
  HostData data(spec);
  std::normal_distribution<double> normal;
  const int64_t count = static_cast<int64_t>(data.bytes.size()) / SizeOfDType(spec.dtype);
  for (int64_t i = 0; i < count; ++i) {
    data.Set(i, IsReal(spec.dtype) ? normal(random) : static_cast<double>(Pick(random, spec.dtype == 1 ? 0 : -3, 3)));
  }
  return data;
}

std::vector<HostData> FilledEpilogue(Random& random, const CallSpec& call) {
  std::vector<HostData> epilogue;
  for (const EpilogueSpec& step : call.epilogue) {
    TensorSpec spec = step.operand;
    spec.dtype = call.result.dtype;
    epilogue.push_back(Filled(random, spec));
  }
  return epilogue;
}

struct Aligned {
  explicit Aligned(int64_t bytes) : data(AllocateAligned(bytes)) {}
  ~Aligned() { FreeAligned(data); }
  void* data;
};

void RunOnce(const PreparedCall& prepared, const HostData& a, const HostData& b, const std::vector<HostData>& epilogue,
             HostData& result) {
  Aligned scratch(prepared.scratch_bytes());
  preheat_lib_addresses addresses = {};
  addresses.operands[0] = a.bytes.data();
  addresses.operands[1] = b.bytes.data();
  std::vector<std::unique_ptr<Aligned>> packed;
  for (int i = 0; i < 2; ++i) {
    if (prepared.pack_key(i).empty()) continue;
    packed.push_back(std::make_unique<Aligned>(prepared.packed_bytes(i)));
    ASSERT_TRUE(prepared.Pack(i, addresses.operands[i], packed.back()->data).ok());
    addresses.packed[i] = packed.back()->data;
  }
  std::vector<const void*> pointers;
  for (const HostData& data : epilogue) pointers.push_back(data.bytes.data());
  addresses.epilogue = pointers.data();
  addresses.result = result.bytes.data();
  addresses.scratch = scratch.data;
  const absl::Status status = prepared.Run(addresses);
  ASSERT_TRUE(status.ok()) << status;
}

double UnitRoundoff(int32_t dtype) {
  switch (static_cast<DType>(dtype)) {
    case DType::kF16: return 0x1p-11;
    case DType::kBF16: return 0x1p-8;
    case DType::kF32: return 0x1p-24;
    default: return 0x1p-53;
  }
}

std::string Describe(const CallSpec& call) {
  std::string text = absl::StrCat("op ", call.op, " dtype ", call.result.dtype, " groups ", call.groups, " transposed ",
                                  call.transposed, " frozen ", call.frozen[1]);
  for (const TensorSpec* t : {&call.operands[0], &call.operands[1], &call.result}) {
    absl::StrAppend(&text, " [", absl::StrJoin(t->sizes, ","), "|", absl::StrJoin(t->strides, ","), "]");
  }
  absl::StrAppend(&text, " stride ", absl::StrJoin(call.stride, ","), " padding ", absl::StrJoin(call.padding, ","),
                  " dilation ", absl::StrJoin(call.dilation, ","), " epilogue");
  for (const EpilogueSpec& step : call.epilogue) absl::StrAppend(&text, " ", step.op);
  return text;
}

// Every element near the definition's value, and no byte between the elements touched.
void Judge(const CallSpec& call, const HostData& got, const NaiveResult& want) {
  const double unit = UnitRoundoff(call.result.dtype);
  std::vector<bool> element(got.bytes.size() / SizeOfDType(call.result.dtype), false);
  int bad = 0;
  ForEachIndex(call.result.sizes, [&](const std::vector<int64_t>& index) {
    const int64_t offset = OffsetOf(call.result, index), flat = Flat(call.result, index);
    element[offset] = true;
    double expected = want.values[flat];
    // Sums in f32: errors grow with the terms' size, never with more than a few units of it; activations have some of
    // their own.
    double allowed = 4 * unit * std::abs(expected) + 64 * std::min(unit, 0x1p-23) * (want.magnitudes[flat] + 1);
    if (!IsReal(call.result.dtype)) {
      expected = Wrapped(call.result.dtype, expected);
      allowed = 0;
    }
    if (std::abs(got.Get(offset) - expected) <= allowed) return;
    if (++bad <= 3)
      ADD_FAILURE() << "at " << absl::StrJoin(index, ",") << ": " << got.Get(offset) << " not " << expected;
  });
  const int64_t size = SizeOfDType(call.result.dtype);
  for (size_t i = 0; i < got.bytes.size(); ++i) {
    if (!element[i / size] && got.bytes[i] != 0x5a) {
      ADD_FAILURE() << "wrote outside of the result";
      break;
    }
  }
}

// How many of the calls the provider took itself: the others it left to the next one.
int CheckRandomCalls(absl::string_view provider, int32_t op, int32_t dtype, int count) {
  int taken = 0;
  for (int seed = 0; seed < count; ++seed) {
    Random random(static_cast<unsigned>(seed * 1000 + op * 100 + dtype));
    const CallSpec call = RandomCall(random, op, dtype);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", Describe(call)));
    absl::StatusOr<std::unique_ptr<PreparedCall>> prepared = Prepare(call, provider);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    if (!prepared.ok()) break;
    taken += (*prepared)->provider() == provider;
    const HostData a = Filled(random, call.operands[0]), b = Filled(random, call.operands[1]);
    const std::vector<HostData> epilogue = FilledEpilogue(random, call);
    HostData result(call.result);
    RunOnce(**prepared, a, b, epilogue, result);
    Judge(call, result, Naive(call, a, b, epilogue));
    if (testing::Test::HasFailure()) break;
  }
  return taken;
}

struct Case {
  const char* provider;
  int32_t op;
  DType dtype;
};

class Providers : public testing::TestWithParam<Case> {};

TEST_P(Providers, ComputesTheDefinition) {
  const Case& c = GetParam();
  const std::vector<std::string> here = ProviderNames();
  if (std::find(here.begin(), here.end(), c.provider) == here.end()) GTEST_SKIP() << c.provider << " is not here";
  const bool loops = std::string(c.provider) == "loops";
  const int count = !loops ? 60 : IsReal(static_cast<int32_t>(c.dtype)) ? 80 : 25;
  const int taken = CheckRandomCalls(c.provider, c.op, static_cast<int32_t>(c.dtype), count);
  // oneDNN multiplies bf16 with AVX-512 only.
  const bool may_decline_all = c.dtype == DType::kBF16 && !HostHas("x86-64-v4");
  EXPECT_GE(taken, loops ? count : may_decline_all ? 0 : 1);
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (int32_t op = PREHEAT_LIB_MATMUL; op <= PREHEAT_LIB_CONV_GRAD_WEIGHT; ++op) {
    for (int32_t dtype = static_cast<int32_t>(DType::kU8); dtype <= static_cast<int32_t>(DType::kF64); ++dtype) {
      cases.push_back({"loops", op, static_cast<DType>(dtype)});
    }
    cases.push_back({"onednn", op, DType::kF32});
    cases.push_back({"onednn", op, DType::kBF16});
  }
  return cases;
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  static const char* const kOps[] = {"matmul", "conv", "conv_grad_input", "conv_grad_weight"};
  static const char* const kDTypes[] = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
  return absl::StrCat(info.param.provider, "_", kOps[info.param.op], "_", kDTypes[static_cast<int>(info.param.dtype)]);
}

INSTANTIATE_TEST_SUITE_P(All, Providers, testing::ValuesIn(AllCases()), CaseName);

CallSpec Square(int64_t n) {
  const TensorSpec t{static_cast<int32_t>(DType::kF32), {n, n}, {n, 1}};
  CallSpec call;
  call.operands[0] = call.operands[1] = call.result = t;
  return call;
}

TEST(Prepare, RefusesWhatCannotBe) {
  CallSpec call = Square(4);
  call.operands[1].sizes[0] = 5;
  EXPECT_THAT(std::string(Prepare(call, "").status().message()), testing::HasSubstr("[4, 4] x [5, 4] is not [4, 4]"));
  call = Square(4);
  call.result.strides = {0, 1};
  EXPECT_THAT(std::string(Prepare(call, "").status().message()), testing::HasSubstr("overlap"));
  call = Square(4);
  call.operands[0].sizes[0] = INT64_MAX;
  EXPECT_FALSE(Prepare(call, "").ok());
  call = Square(4);
  call.operands[0].dtype = static_cast<int32_t>(DType::kF64);
  EXPECT_THAT(std::string(Prepare(call, "").status().message()), testing::HasSubstr("dtype"));
  call = Square(4);
  call.epilogue.push_back({PREHEAT_LIB_BIAS, {call.result.dtype, {3}, {1}}});
  EXPECT_THAT(std::string(Prepare(call, "").status().message()), testing::HasSubstr("bias"));
}

TEST(Half, ConvertsEveryValueBackAndForth) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float f16 = ToFloat(F16{static_cast<uint16_t>(bits)}), bf16 = ToFloat(BF16{static_cast<uint16_t>(bits)});
    if (f16 == f16) {
      EXPECT_EQ(ToF16(f16).bits, bits);
    }
    if (bf16 == bf16) {
      EXPECT_EQ(ToBF16(bf16).bits, bits);
    }
    if (f16 != f16) {
      EXPECT_NE(ToFloat(ToF16(f16)), ToFloat(ToF16(f16)));
    }
  }
  EXPECT_EQ(ToF16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(ToF16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(ToF16(1 + 0x1p-11f).bits, 0x3c00);  // a tie goes to even
  EXPECT_EQ(ToF16(1 + 0x1p-11f + 0x1p-20f).bits, 0x3c01);
  EXPECT_EQ(ToF16(0x1p-25f).bits, 0);  // a tie below the least subnormal
  EXPECT_EQ(ToF16(-0x1.8p-25f).bits, 0x8001);
  EXPECT_EQ(ToBF16(1 + 0x1p-8f).bits, 0x3f80);
}

// Libraries multiply 16-bit floats in pairs: where the last of an odd number meets a zero, an infinity becomes NaN.
TEST(Providers, InfinitiesStay) {
  const int32_t bf16 = static_cast<int32_t>(DType::kBF16);
  for (int64_t k : {1, 2, 3, 5, 16, 17, 33}) {
    CallSpec call;
    call.operands[0] = {bf16, {5, k}, {k, 1}};
    call.operands[1] = {bf16, {k, 8}, {8, 1}};
    call.result = {bf16, {5, 8}, {8, 1}};
    HostData a(call.operands[0]), b(call.operands[1]), result(call.result);
    for (int64_t i = 0; i < 5 * k; ++i) a.Set(i, i % k == k - 1 && i / k % 2 == 1 ? INFINITY : 1);
    for (int64_t i = 0; i < 8 * k; ++i) b.Set(i, -1);
    absl::StatusOr<std::unique_ptr<PreparedCall>> prepared = Prepare(call, "");
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    RunOnce(**prepared, a, b, {}, result);
    for (int64_t i = 0; i < 40; ++i) {
      const double want = i / 8 % 2 == 1 ? -INFINITY : static_cast<double>(-k);
      EXPECT_EQ(result.Get(i), want) << (*prepared)->provider() << ", " << k << " products, element " << i;
    }
  }
}

// A 3 by 3 convolution of images with `in` channels a group, everything row-major.
CallSpec RowMajorConvolution(int64_t in, int64_t groups = 1) {
  const int32_t f32 = static_cast<int32_t>(DType::kF32);
  CallSpec call;
  call.op = PREHEAT_LIB_CONV;
  call.groups = groups;
  call.operands[0] = {f32, {2, in * groups, 10, 10}, {100 * in * groups, 100, 10, 1}};
  call.operands[1] = {f32, {32, in, 3, 3}, {9 * in, 9, 3, 1}};
  call.result = {f32, {2, 32, 10, 10}, {3200, 100, 10, 1}};
  call.stride = {1, 1}, call.padding = {1, 1}, call.dilation = {1, 1};
  return call;
}

// The error in root mean square, of results of about 1.
double ErrorOf(const HostData& result, const NaiveResult& want) {
  double squares = 0;
  for (size_t i = 0; i < want.values.size(); ++i) {
    squares += std::pow(result.Get(static_cast<int64_t>(i)) - want.values[i], 2);
  }
  return std::sqrt(squares / static_cast<double>(want.values.size()));
}

// One sum over all 9 * 256 products is 5.8e-7 off, sums over 16 channels each are 1.7e-7.
TEST(Providers, RowMajorConvolutionsSumChannelsInBlocks) {
  if (ProviderNames().front() != "onednn" || !HostHas("x86-64-v4")) GTEST_SKIP() << "AVX-512 and oneDNN only";
  for (int64_t groups : {1, 2}) {
    const CallSpec call = RowMajorConvolution(256, groups);
    Random random(1);
    std::normal_distribution<double> normal;
    HostData a(call.operands[0]), b(call.operands[1]), result(call.result);
    for (int64_t i = 0; i < call.operands[0].elements(); ++i) a.Set(i, normal(random));
    for (int64_t i = 0; i < call.operands[1].elements(); ++i) b.Set(i, normal(random) / std::sqrt(256 * 9));
    absl::StatusOr<std::unique_ptr<PreparedCall>> prepared = Prepare(call, "");
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_EQ((*prepared)->provider(), "onednn");
    RunOnce(**prepared, a, b, {}, result);
    EXPECT_LT(ErrorOf(result, Naive(call, a, b, {})), 2.5e-7) << groups;
  }
}

// With what follows them, an image of few channels, and a residual that lies otherwise.
TEST(Providers, RowMajorConvolutionsOfWholeBlocksComputeTheDefinition) {
  for (int64_t in : {1, 3, 16, 48}) {
    for (int32_t frozen : {0, 1}) {
      CallSpec call = RowMajorConvolution(in);
      call.frozen[1] = frozen;
      TensorSpec residual = call.result;
      residual.strides = {3200, 1, 320, 32};
      call.epilogue = {
          {PREHEAT_LIB_BIAS, {call.result.dtype, {32}, {1}}}, {PREHEAT_LIB_RESIDUAL, residual}, {PREHEAT_LIB_RELU, {}}};
      Random random(static_cast<unsigned>(in));
      const HostData a = Filled(random, call.operands[0]), b = Filled(random, call.operands[1]);
      std::vector<HostData> epilogue;
      for (const EpilogueSpec& step : call.epilogue) {
        TensorSpec spec = step.operand;
        spec.dtype = call.result.dtype;
        epilogue.push_back(Filled(random, spec));
      }
      HostData result(call.result);
      absl::StatusOr<std::unique_ptr<PreparedCall>> prepared = Prepare(call, "");
      ASSERT_TRUE(prepared.ok()) << prepared.status();
      RunOnce(**prepared, a, b, epilogue, result);
      Judge(call, result, Naive(call, a, b, epilogue));
    }
  }
}

// A convolution by one pixel of row-major images, or its gradient by the input.
CallSpec Pointwise(int32_t op, std::vector<int64_t> image, int64_t out) {
  const int32_t f32 = static_cast<int32_t>(DType::kF32);
  const auto row_major = [&](int64_t channels) {
    TensorSpec t{f32, {image[0], channels}, {}};
    t.sizes.insert(t.sizes.end(), image.begin() + 2, image.end());
    t.strides.assign(t.sizes.size(), 1);
    for (int d = t.rank() - 1; d > 0; --d) t.strides[d - 1] = t.strides[d] * t.sizes[d];
    return t;
  };
  const size_t spatial = image.size() - 2;
  CallSpec call;
  call.op = op;
  call.operands[0] = row_major(image[1]);
  call.operands[1] = {f32, {out, image[1]}, {image[1], 1}};
  call.result = row_major(out);
  if (op == PREHEAT_LIB_CONV_GRAD_INPUT) call.operands[1] = {f32, {image[1], out}, {out, 1}};
  call.operands[1].sizes.resize(image.size(), 1);
  call.operands[1].strides.resize(image.size(), 1);
  call.stride.assign(spatial, 1), call.padding.assign(spatial, 0), call.dilation.assign(spatial, 1);
  return call;
}

HostData FilledAndRun(const CallSpec& call, NaiveResult* want, absl::string_view provider = "loops",
                      absl::string_view preferred = "") {
  Random random(static_cast<unsigned>(call.result.elements()));
  const HostData a = Filled(random, call.operands[0]), b = Filled(random, call.operands[1]);
  const std::vector<HostData> epilogue = FilledEpilogue(random, call);
  HostData result(call.result);
  absl::StatusOr<std::unique_ptr<PreparedCall>> prepared = Prepare(call, preferred);
  EXPECT_TRUE(prepared.ok()) << prepared.status();
  if (!prepared.ok()) return result;
  EXPECT_EQ((*prepared)->provider(), provider);
  RunOnce(**prepared, a, b, epilogue, result);
  *want = Naive(call, a, b, epilogue);
  return result;
}

// Panels within an image, over two of them and over many, the last one with any number of columns; every number of
// rows and channels.
TEST(Providers, PointwiseConvolutionsComputeTheDefinition) {
  const std::vector<std::vector<int64_t>> images = {{1, 16, 8, 8}, {2, 33, 7, 7},   {3, 5, 5, 3},  {9, 17, 2, 2},
                                                    {2, 70, 40},   {1, 1, 2, 5, 9}, {4, 31, 6, 6}, {2, 48, 4, 9}};
  for (int32_t op : {PREHEAT_LIB_CONV, PREHEAT_LIB_CONV_GRAD_INPUT}) {
    for (const std::vector<int64_t>& image : images) {
      for (int64_t out : {1, 4, 7, 13, 32, 50}) {
        const CallSpec call = Pointwise(op, image, out);
        SCOPED_TRACE(Describe(call));
        NaiveResult want;
        Judge(call, FilledAndRun(call, &want), want);
      }
    }
  }
}

TEST(Providers, StridedPointwiseConvolutionsComputeTheDefinition) {
  for (int64_t stride : {2, 3}) {
    for (int64_t images : {2, 3}) {
      CallSpec call = Pointwise(PREHEAT_LIB_CONV, {images, 19, 15, 16}, 26);
      call.stride = {stride, stride};
      const int64_t high = 14 / stride + 1, wide = 15 / stride + 1;
      call.result.sizes = {images, 26, high, wide};
      call.result.strides = {26 * high * wide, high * wide, wide, 1};
      call.epilogue = {{PREHEAT_LIB_BIAS, {call.result.dtype, {26}, {1}}}};
      SCOPED_TRACE(Describe(call));
      NaiveResult want;
      Judge(call, FilledAndRun(call, &want), want);
    }
  }
}

// A part of a larger tensor, images that are one in memory, filters with gaps; what follows the product.
TEST(Providers, PointwiseConvolutionsOfAnyStridesComputeTheDefinition) {
  for (int32_t op : {PREHEAT_LIB_CONV, PREHEAT_LIB_CONV_GRAD_INPUT}) {
    for (int64_t gap : {0, 3}) {
      CallSpec call = Pointwise(op, {3, 20, 7, 7}, 14);
      for (TensorSpec* t : {&call.operands[0], &call.result}) {
        t->strides[1] += gap;
        t->strides[0] = gap == 0 && t == &call.operands[0] ? 0 : t->strides[1] * t->sizes[1] + gap;
      }
      for (int64_t& stride : call.operands[1].strides) stride *= gap + 1;
      call.epilogue = {{PREHEAT_LIB_BIAS, {call.result.dtype, {14}, {gap}}},
                       {PREHEAT_LIB_RESIDUAL, call.result},
                       {PREHEAT_LIB_RELU, {}}};
      SCOPED_TRACE(Describe(call));
      NaiveResult want;
      Judge(call, FilledAndRun(call, &want), want);
    }
  }
}

// Channels before images, as a transposed tensor has them: no image follows the last channel of the last one but one.
TEST(Providers, PointwiseConvolutionsReadNothingBehindTheirImages) {
  CallSpec call = Pointwise(PREHEAT_LIB_CONV, {2, 9, 7, 7}, 8);
  call.operands[0].strides = {49, 98, 7, 1};
  call.result.strides = {49, 98, 7, 1};
  NaiveResult want;
  Judge(call, FilledAndRun(call, &want), want);
}

// One sum over 512 channels is 4e-7 off, sums over 16 channels each are 1.3e-7, those in totals of six 1.0e-7.
TEST(Providers, PointwiseConvolutionsSumChannelsInBlocks) {
  for (int32_t op : {PREHEAT_LIB_CONV, PREHEAT_LIB_CONV_GRAD_INPUT}) {
    const CallSpec call = Pointwise(op, {1, 512, 10, 10}, 24);
    NaiveResult want;
    const HostData result = FilledAndRun(call, &want);
    EXPECT_LT(ErrorOf(result, want), (op == PREHEAT_LIB_CONV ? 1.15e-7 : 1.6e-7) * std::sqrt(512));
  }
}

// Totals, sums and channels that do not go into one another.
TEST(Providers, PointwiseConvolutionsOfManyChannelsComputeTheDefinition) {
  for (int64_t in : {320, 323, 480, 513, 657}) {
    for (int64_t out : {1, 7, 12}) {
      const CallSpec call = Pointwise(PREHEAT_LIB_CONV, {2, in, 7, 7}, out);
      SCOPED_TRACE(Describe(call));
      NaiveResult want;
      Judge(call, FilledAndRun(call, &want), want);
    }
  }
}

TEST(Providers, PointwiseConvolutionsDoNotDependOnThreads) {
  for (int32_t op : {PREHEAT_LIB_CONV, PREHEAT_LIB_CONV_GRAD_INPUT}) {
    const CallSpec call = Pointwise(op, {3, 90, 11, 11}, 75);
    NaiveResult want;
    const HostData result = FilledAndRun(call, &want);
    for (int threads : {1, 2, 3, 7, 64}) {
      const ThreadLimit limit(threads);
      EXPECT_EQ(FilledAndRun(call, &want).bytes, result.bytes) << threads << " threads";
    }
  }
}

// Not where oneDNN has nothing to copy, nor where it has vectors for what follows.
TEST(Providers, PointwiseConvolutionsGoToTheOwnLoopsWhereImagesWouldBeCopied) {
  if (ProviderNames().front() != "onednn") GTEST_SKIP() << "oneDNN only";
  NaiveResult want;
  CallSpec call = Pointwise(PREHEAT_LIB_CONV, {2, 32, 10, 10}, 32);
  FilledAndRun(call, &want, "loops");
  call.epilogue = {{PREHEAT_LIB_GELU, {}}};
  FilledAndRun(call, &want, "onednn");
  call = Pointwise(PREHEAT_LIB_CONV, {2, 32, 10, 10}, 32);
  call.frozen[1] = true;
  FilledAndRun(call, &want, "onednn");
  call = Pointwise(PREHEAT_LIB_CONV, {2, 32, 10, 10}, 32);
  call.operands[0].strides = {3200, 1, 320, 32};
  FilledAndRun(call, &want, "onednn");
  call.result.strides = {3200, 1, 320, 32};
  FilledAndRun(call, &want, "onednn");
  FilledAndRun(Pointwise(PREHEAT_LIB_CONV, {1, 32, 5, 5}, 32), &want, "onednn");
}

// A gradient by the filters of one pixel, of row-major images.
CallSpec PointwiseGrad(std::vector<int64_t> image, int64_t out) {
  CallSpec call = Pointwise(PREHEAT_LIB_CONV, std::move(image), out);
  call.op = PREHEAT_LIB_CONV_GRAD_WEIGHT;
  std::swap(call.operands[0], call.operands[1]);  // w, x, y
  std::swap(call.operands[0], call.result);       // y, x, w
  return call;
}

void JudgeOwn(const CallSpec& call) {
  SCOPED_TRACE(Describe(call));
  NaiveResult want;
  const HostData result = FilledAndRun(call, &want, "loops", "loops");
  Judge(call, result, want);
}

// Positions that are whole vectors and others, parts of an image, several images at once; every number of channels.
TEST(Providers, PointwiseGradientsByTheFiltersComputeTheDefinition) {
  const std::vector<std::vector<int64_t>> images = {{1, 16, 8, 8}, {2, 33, 7, 7},   {3, 5, 5, 4},   {2, 23, 39, 41},
                                                    {2, 70, 40},   {1, 1, 2, 5, 9}, {30, 31, 6, 6}, {1, 9, 28, 28}};
  for (const std::vector<int64_t>& image : images) {
    for (int64_t out : {1, 4, 7, 13, 32, 50}) JudgeOwn(PointwiseGrad(image, out));
  }
}

// Parts of larger tensors, one image for all, filters' channels in the other order.
TEST(Providers, PointwiseGradientsByTheFiltersOfAnyStridesComputeTheDefinition) {
  for (int64_t gap : {0, 3}) {
    CallSpec call = PointwiseGrad({3, 20, 7, 7}, 14);
    for (TensorSpec& t : call.operands) {
      t.strides[1] += gap;
      t.strides[0] = gap == 0 && &t == call.operands ? 0 : t.strides[1] * t.sizes[1] + gap;
    }
    call.result.strides = {1 + gap, 14 * (1 + gap), 1, 1};
    JudgeOwn(call);
  }
}

// Chunks that go round among the threads, blocks of rows that do, fewer of both than threads.
TEST(Providers, PointwiseGradientsByTheFiltersComputeTheDefinitionOnAnyThreads) {
  for (int threads : {1, 2, 3, 7, 64}) {
    const ThreadLimit limit(threads);
    SCOPED_TRACE(threads);
    JudgeOwn(PointwiseGrad({8, 31, 28, 28}, 20));
    JudgeOwn(PointwiseGrad({3, 40, 20, 30}, 7));
  }
}

// What is read twice, for a vector of the image's last positions, must not become NaN.
TEST(Providers, PointwiseGradientsByTheFiltersKeepInfinities) {
  const CallSpec call = PointwiseGrad({2, 5, 5, 5}, 7);
  HostData a(call.operands[0]), b(call.operands[1]), result(call.result);
  for (int64_t i = 0; i < 2 * 7 * 25; ++i) a.Set(i, 1);
  for (int64_t i = 0; i < 2 * 5 * 25; ++i) b.Set(i, i % 25 == 12 ? INFINITY : 1);
  absl::StatusOr<std::unique_ptr<PreparedCall>> prepared = Prepare(call, "loops");
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  RunOnce(**prepared, a, b, {}, result);
  for (int64_t i = 0; i < 35; ++i) EXPECT_EQ(result.Get(i), INFINITY);
  std::swap(a, b);
  CallSpec exchanged = PointwiseGrad({2, 7, 5, 5}, 5);
  prepared = Prepare(exchanged, "loops");
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  RunOnce(**prepared, a, b, {}, result);
  for (int64_t i = 0; i < 35; ++i) EXPECT_EQ(result.Get(i), INFINITY);
}

// One sum over 6,272 positions is 5e-7 off where 16 lanes share it; sums of 784 positions are 1.4e-7.
TEST(Providers, PointwiseGradientsByTheFiltersSumPositionsInBlocks) {
  if (!HostHas("x86-64-v4")) GTEST_SKIP() << "with fewer lanes a lane has more of them";
  const CallSpec call = PointwiseGrad({8, 24, 28, 28}, 24);
  NaiveResult want;
  const HostData result = FilledAndRun(call, &want);
  EXPECT_LT(ErrorOf(result, want), 1.8e-7 * std::sqrt(8 * 784));
}

// Where images are large, or channels few or badly divided.
TEST(Providers, PointwiseGradientsByTheFiltersGoToTheOwnLoopsWhereImagesWouldBeCopied) {
  if (ProviderNames().front() != "onednn") GTEST_SKIP() << "oneDNN only";
  NaiveResult want;
  FilledAndRun(PointwiseGrad({1, 128, 28, 28}, 80), &want, "loops");
  FilledAndRun(PointwiseGrad({1, 128, 14, 14}, 80), &want, "onednn");
  FilledAndRun(PointwiseGrad({1, 128, 14, 14}, 64), &want, "onednn");
  FilledAndRun(PointwiseGrad({1, 128, 16, 16}, 64), &want, "loops");
  FilledAndRun(PointwiseGrad({1, 56, 14, 14}, 128), &want, "loops");
  FilledAndRun(PointwiseGrad({1, 32, 14, 14}, 128), &want, "loops");
  FilledAndRun(PointwiseGrad({1, 16, 9, 10}, 16), &want, "onednn");
  CallSpec call = PointwiseGrad({1, 128, 28, 28}, 80);
  call.operands[0].strides = {784 * 80, 1, 28 * 80, 80};
  FilledAndRun(call, &want, "onednn");
}

// A convolution by windows of nine pixels of row-major images, or its gradient by the input.
CallSpec NinePixels(int32_t op, std::vector<int64_t> image, int64_t out, int64_t groups, int64_t stride = 1,
                    int64_t padding = 1) {
  const auto row_major = [](std::vector<int64_t> sizes) {
    TensorSpec t{static_cast<int32_t>(DType::kF32), std::move(sizes), {1, 1, 1, 1}};
    for (int d = 3; d > 0; --d) t.strides[d - 1] = t.strides[d] * t.sizes[d];
    return t;
  };
  const auto high = [&](int64_t size) { return (size + 2 * padding - 3) / stride + 1; };
  CallSpec call;
  call.op = op;
  call.operands[0] = row_major(image);
  call.operands[1] = row_major({out, image[1] / groups, 3, 3});
  call.result = row_major({image[0], out, high(image[2]), high(image[3])});
  if (op == PREHEAT_LIB_CONV_GRAD_INPUT) std::swap(call.operands[0], call.result);
  call.stride = {stride, stride}, call.padding = {padding, padding}, call.dilation = {1, 1};
  call.groups = groups;
  return call;
}

// Groups of every size, bands that are whole vectors and others, lines shorter than a vector and longer.
TEST(Providers, NinePixelConvolutionsComputeTheDefinition) {
  const std::vector<std::vector<int64_t>> images = {{2, 24, 7, 7}, {1, 24, 14, 14}, {3, 24, 4, 4}, {1, 24, 3, 41}};
  for (const std::vector<int64_t>& image : images) {
    for (int64_t groups : {1, 3, 8}) {
      for (int64_t out : {groups, 5 * groups, 13 * groups}) {
        JudgeOwn(NinePixels(PREHEAT_LIB_CONV, image, out, groups));
        JudgeOwn(NinePixels(PREHEAT_LIB_CONV_GRAD_INPUT, image, out, groups));
      }
    }
  }
  JudgeOwn(NinePixels(PREHEAT_LIB_CONV, {1, 64, 13, 64}, 3, 1));  // in several bands
}

// Lines of even and odd lengths, with and without padding; the image's ends are read in whole vectors.
TEST(Providers, StridedNinePixelConvolutionsComputeTheDefinition) {
  const std::vector<std::vector<int64_t>> images = {{2, 6, 8, 8},   {1, 6, 14, 14}, {3, 6, 9, 9},
                                                    {1, 3, 20, 70}, {1, 6, 64, 33}, {1, 3, 99, 65}};
  for (const std::vector<int64_t>& image : images) {
    for (int64_t padding : {0, 1}) {
      JudgeOwn(NinePixels(PREHEAT_LIB_CONV, image, 12, 3, 2, padding));
      JudgeOwn(NinePixels(PREHEAT_LIB_CONV, image, 12, 1, 1, padding));
    }
    JudgeOwn(NinePixels(PREHEAT_LIB_CONV_GRAD_INPUT, image, 12, 3, 1, 2));
    CallSpec call = NinePixels(PREHEAT_LIB_CONV, image, 12, 3, 2);
    call.stride = {1, 2};
    call.result.sizes[2] = image[2];
    call.result.strides[1] = call.result.sizes[2] * call.result.sizes[3];
    call.result.strides[0] = 12 * call.result.strides[1];
    JudgeOwn(call);
  }
}

// Parts of larger tensors, one image for all, filters in another order, fewer results than windows; what follows.
TEST(Providers, NinePixelConvolutionsOfAnyStridesComputeTheDefinition) {
  for (int32_t op : {PREHEAT_LIB_CONV, PREHEAT_LIB_CONV_GRAD_INPUT}) {
    for (int64_t gap : {0, 3}) {
      CallSpec call = NinePixels(op, {3, 20, 9, 9}, 12, 4);
      for (TensorSpec* t : {&call.operands[0], &call.result}) {
        t->strides[1] += gap;
        t->strides[0] = gap == 0 && t == &call.operands[0] ? 0 : t->strides[1] * t->sizes[1] + gap;
      }
      if (gap == 0) call.operands[1].strides = {45, 1, 15, 5};
      TensorSpec& y = op == PREHEAT_LIB_CONV ? call.result : call.operands[0];
      y.sizes[3] = 8, y.strides[2] = 8;
      call.epilogue = {{PREHEAT_LIB_BIAS, {call.result.dtype, {call.result.sizes[1]}, {gap}}}, {PREHEAT_LIB_RELU, {}}};
      SCOPED_TRACE(Describe(call));
      NaiveResult want;
      Judge(call, FilledAndRun(call, &want, "loops", "loops"), want);
    }
  }
}

TEST(Providers, NinePixelConvolutionsDoNotDependOnThreads) {
  for (int32_t op : {PREHEAT_LIB_CONV, PREHEAT_LIB_CONV_GRAD_INPUT}) {
    const bool forward = op == PREHEAT_LIB_CONV;
    const CallSpec call = NinePixels(op, {1, forward ? 63 : 3, 13, 64}, forward ? 3 : 63, 1);
    NaiveResult want;
    const HostData result = FilledAndRun(call, &want);
    for (int threads : {1, 2, 3, 7, 64}) {
      const ThreadLimit limit(threads);
      EXPECT_EQ(FilledAndRun(call, &want).bytes, result.bytes) << threads << " threads";
    }
  }
}

// A value beside the image, which a whole vector reads too, must not become NaN or a part of the result.
TEST(Providers, NinePixelConvolutionsKeepInfinitiesApart) {
  for (int64_t stride : {1, 2}) {
    const CallSpec call = NinePixels(PREHEAT_LIB_CONV, {2, 4, 9, 9}, 4, 2, stride);
    HostData x(call.operands[0]), w(call.operands[1]), result(call.result);
    for (int64_t i = 0; i < call.operands[0].elements(); ++i) x.Set(i, i % 9 == 8 || i % 81 >= 72 ? INFINITY : 1);
    for (int64_t i = 0; i < call.operands[1].elements(); ++i) w.Set(i, 1);
    absl::StatusOr<std::unique_ptr<PreparedCall>> prepared = Prepare(call, "loops");
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    RunOnce(**prepared, x, w, {}, result);
    const int64_t size = call.result.sizes[2];
    for (int64_t i = 0; i < call.result.elements(); ++i) {
      const bool last = i % size == size - 1 || i / size % size == size - 1;
      const bool next = stride == 1 && (i % size == size - 2 || i / size % size == size - 2);
      EXPECT_EQ(result.Get(i) == INFINITY, last || next) << i;
    }
  }
}

// One sum over 288 products is 3e-7 off.
TEST(Providers, NinePixelConvolutionsSumInBlocks) {
  for (int32_t op : {PREHEAT_LIB_CONV, PREHEAT_LIB_CONV_GRAD_INPUT}) {
    const CallSpec call = NinePixels(op, {1, 64, 16, 16}, 64, 2);
    NaiveResult want;
    const HostData result = FilledAndRun(call, &want, "loops", "loops");
    EXPECT_LT(ErrorOf(result, want), 1.1e-7 * std::sqrt(288));
  }
}

// Where oneDNN's vectors of channels would not be full, or images are large.
TEST(Providers, NinePixelConvolutionsGoToTheOwnLoopsWhereTheyAreFaster) {
  if (ProviderNames().front() != "onednn") GTEST_SKIP() << "oneDNN only";
  NaiveResult want;
  FilledAndRun(NinePixels(PREHEAT_LIB_CONV, {1, 24, 7, 7}, 24, 3), &want, "loops");
  FilledAndRun(NinePixels(PREHEAT_LIB_CONV, {1, 24, 7, 7}, 24, 24), &want, "onednn");
  FilledAndRun(NinePixels(PREHEAT_LIB_CONV, {1, 3, 20, 20}, 16, 1, 2), &want, "loops");
  FilledAndRun(NinePixels(PREHEAT_LIB_CONV, {1, 60, 7, 7}, 8, 1), &want, "onednn");
  FilledAndRun(NinePixels(PREHEAT_LIB_CONV, {1, 60, 14, 14}, 8, 1), &want, "loops");
  FilledAndRun(NinePixels(PREHEAT_LIB_CONV, {1, 64, 16, 16}, 64, 2), &want, "loops");
  FilledAndRun(NinePixels(PREHEAT_LIB_CONV, {1, 64, 14, 14}, 64, 2), &want, "onednn");
  FilledAndRun(NinePixels(PREHEAT_LIB_CONV, {1, 32, 16, 16}, 32, 1), &want, "onednn");
  FilledAndRun(NinePixels(PREHEAT_LIB_CONV_GRAD_INPUT, {1, 24, 7, 7}, 24, 3), &want, "onednn");
  FilledAndRun(NinePixels(PREHEAT_LIB_CONV_GRAD_INPUT, {1, 24, 16, 16}, 24, 3), &want, "loops");
  CallSpec call = NinePixels(PREHEAT_LIB_CONV, {1, 24, 7, 7}, 24, 3);
  call.frozen[1] = true;
  FilledAndRun(call, &want, "onednn");
}

// Filters that are copied in every call: the own loops read them as they lie, but not where every channel has its own.
TEST(Providers, FewPositionsGoToTheOwnLoopsUnlessInGroups) {
  const int32_t f32 = static_cast<int32_t>(DType::kF32);
  for (int64_t groups : {1, 256}) {
    CallSpec call;
    call.op = PREHEAT_LIB_CONV;
    call.operands[0] = {f32, {1, 256, 5, 5}, {6400, 1, 1280, 256}};
    call.operands[1] = {f32, {256, 256 / groups, 5, 5}, {6400 / groups, 25, 5, 1}};
    call.result = {f32, {1, 256, 5, 5}, {6400, 1, 1280, 256}};
    call.stride = {1, 1}, call.padding = {2, 2}, call.dilation = {1, 1};
    call.groups = groups;
    absl::StatusOr<std::unique_ptr<PreparedCall>> prepared = Prepare(call, "");
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_EQ((*prepared)->provider(), groups == 1 ? "loops" : "onednn");
  }
}

// What copying filters costs is made good by 8 x 8 positions, not by 7 x 7.
TEST(Providers, ManyPositionsAreWorthACopyOfTheFilters) {
  const int32_t f32 = static_cast<int32_t>(DType::kF32);
  for (int64_t width : {7, 8}) {
    CallSpec call;
    call.op = PREHEAT_LIB_CONV;
    call.operands[0] = {f32, {1, 128, width, width}, {128 * width * width, 1, 128 * width, 128}};
    call.operands[1] = {f32, {128, 128, 3, 3}, {1152, 9, 3, 1}};
    call.result = call.operands[0];
    call.stride = {1, 1}, call.padding = {1, 1}, call.dilation = {1, 1};
    absl::StatusOr<std::unique_ptr<PreparedCall>> prepared = Prepare(call, "");
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_EQ((*prepared)->provider(), width == 7 ? "loops" : "onednn");
  }
}

// A network's gates: one pixel, small filters. With more positions the copy is worth it.
TEST(Providers, SmallFiltersOfOnePositionGoToTheOwnLoops) {
  const int32_t f32 = static_cast<int32_t>(DType::kF32);
  for (int64_t width : {1, 7}) {
    CallSpec call;
    call.op = PREHEAT_LIB_CONV;
    call.operands[0] = {f32, {1, 96, 1, width}, {96 * width, 1, 96 * width, 96}};
    call.operands[1] = {f32, {4, 96, 1, 1}, {96, 1, 1, 1}};
    call.result = {f32, {1, 4, 1, width}, {4 * width, 1, 4 * width, 4}};
    call.stride = {1, 1}, call.padding = {0, 0}, call.dilation = {1, 1};
    absl::StatusOr<std::unique_ptr<PreparedCall>> prepared = Prepare(call, "");
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_EQ((*prepared)->provider(), width == 1 ? "loops" : "onednn");
  }
}

}  // namespace
}  // namespace preheat::library
