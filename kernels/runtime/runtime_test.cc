// The runtime through its C ABI: plans built here, kernels compiled here.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "absl/base/config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device/compile_for_test.h"
#include "kernels/runtime/plan_for_test.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat::runtime {
namespace {

using plan::DType;
using testing::ElementsAre;
using testing::HasSubstr;

const TestCode& Kernels() {
  static const TestCode& code = *new TestCode(CompileForTest(R"(
KERNEL(add) { for (long i = begin; i < end; ++i) F32(2)[i] = F32(0)[i] + F32(1)[i]; }
KERNEL(scale) { for (long i = begin; i < end; ++i) F32(1)[i] = F32(0)[i] * static_cast<float>(a->scalars[0]); }
KERNEL(increment) { for (long i = begin; i < end; ++i) F32(0)[i] += 1; }
KERNEL(through_scratch) {
  float* mine = static_cast<float*>(a->scratch);
  for (long i = begin; i < end; ++i) { mine[0] = F32(0)[i]; F32(1)[i] = mine[0]; }
}
KERNEL(take) {
  for (long i = begin; i < end; ++i) {
    long k = I64(1)[i];
    if (k < 0 || k >= a->scalars[0]) { *a->error = 2; k = 0; }
    F32(2)[i] = F32(0)[k];
  }
}
KERNEL(fails_at) { *a->error = static_cast<int>(I64(0)[0]); I64(1)[0] = 0; }
KERNEL(count_positive) { long n = 0; for (long i = 0; i < a->scalars[0]; ++i) n += F32(0)[i] > 0; *I64(1) = n; }
KERNEL(store_scalar) { *I64(0) = a->scalars[0]; }
KERNEL(copy_size) { *I64(1) = *I64(0); }
KERNEL(less_than_ten) { *static_cast<bool*>(a->buffers[1]) = F32(0)[0] < 10; }
)"));
  return code;
}

// A status as text, freed: "INVALID_ARGUMENT layout_mismatch input 0: message".
std::string Take(preheat_status* status) {
  if (status == nullptr) return "OK";
  const std::string text = std::string(preheat_status_code(status)) + " " + preheat_status_kind(status) + " " +
                           preheat_status_where(status) + ": " + preheat_status_message(status);
  preheat_status_free(status);
  return text;
}

struct Tensor {
  Tensor(DType dtype, std::vector<int64_t> sizes, void* data) : sizes_(std::move(sizes)), strides_(sizes_.size(), 1) {
    for (size_t i = sizes_.size(); i-- > 1;) strides_[i - 1] = strides_[i] * sizes_[i];
    tensor = {data,
              static_cast<int32_t>(dtype),
              static_cast<int32_t>(sizes_.size()),
              sizes_.data(),
              strides_.data(),
              PREHEAT_CPU,
              0};
  }
  Tensor(const Tensor&) = delete;
  std::vector<int64_t> sizes_, strides_;
  preheat_tensor tensor;
};

struct alignas(64) Floats {
  explicit Floats(std::vector<float> v) : values(std::move(v)) {}
  std::vector<float> values;
  Tensor tensor{DType::F32, {static_cast<int64_t>(values.size())}, values.data()};
};

class Runtime {
 public:
  ~Runtime() {
    preheat_session_release(session);
    preheat_executable_release(executable);
  }
  std::string Load(const std::string& plan, const char* cache_dir = nullptr) {
    const preheat_blob blob = {Kernels().digest.c_str(), Kernels().bytes.data(), Kernels().bytes.size()};
    const preheat_load_options options = {cache_dir, 0};
    return Take(preheat_executable_load(plan.data(), plan.size(), &blob, 1, &options, &executable));
  }
  std::string Bind(std::vector<preheat_tensor> frozen = {}, preheat_extern_handler handler = nullptr,
                   void* context = nullptr) {
    const preheat_bind_options options = {frozen.data(), frozen.size(), 0, handler, context};
    return Take(preheat_bind(executable, &options, &session));
  }
  void LoadAndBind(const std::string& plan, std::vector<preheat_tensor> frozen = {},
                   preheat_extern_handler handler = nullptr, void* context = nullptr) {
    ASSERT_EQ(Load(plan), "OK");
    ASSERT_EQ(Bind(std::move(frozen), handler, context), "OK");
  }
  std::string Run(std::vector<preheat_tensor> inputs, std::vector<preheat_tensor> outputs) {
    return Take(preheat_session_run(session, inputs.data(), inputs.size(), outputs.data(), outputs.size(), nullptr));
  }
  preheat_executable* executable = nullptr;
  preheat_session* session = nullptr;
};

// y = (x + c) * 3 for x of any length up to 1000, through the arena; c = 0.5 everywhere, a constant of 1000.
std::string ChainPlan(uint32_t alignment = 4) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const uint32_t d0 = p.Symbol("d0", 1, 1000, 0, 0);
  const uint32_t x = p.Input(DType::F32, {d0}, false, alignment), y = p.Output(DType::F32, {d0});
  const std::vector<float> half(1000, 0.5f);
  const uint32_t c = p.Constant(DType::F32, {p.Const(1000)}, half.data(), half.size() * 4);
  const uint32_t sum = p.Arena(DType::F32, {d0});
  const uint32_t code = p.Code(Kernels().digest);
  p.Run(p.Launch(p.Kernel(code, "add"), {x, c, sum}, d0));
  p.Run(p.Launch(p.Kernel(code, "scale"), {sum, y}, d0, {p.Const(3)}));
  return p.Finish();
}

TEST(Run, ChainsKernelsThroughTheArenaAtEverySize) {
  Runtime runtime;
  runtime.LoadAndBind(ChainPlan());
  for (const int64_t n : {1, 7, 1000, 7, 64}) {
    Floats x(std::vector<float>(n, 2.0f)), y(std::vector<float>(n, 0.0f));
    ASSERT_EQ(runtime.Run({x.tensor.tensor}, {y.tensor.tensor}), "OK");
    EXPECT_THAT(y.values, testing::Each(7.5f));
  }
}

TEST(Run, RawTakesTheCallersArena) {
  Runtime runtime;
  runtime.LoadAndBind(ChainPlan());
  const int64_t symbols[] = {100};
  const int64_t bytes = preheat_arena_bytes(runtime.executable, symbols);
  EXPECT_EQ(bytes, 448);
  std::vector<char> memory(bytes + 64, 0);
  char* arena = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  Floats x(std::vector<float>(100, 2.0f)), y(std::vector<float>(100, 0.0f));
  void* const inputs[] = {x.values.data()};
  void* const outputs[] = {y.values.data()};
  ASSERT_EQ(Take(preheat_session_run_raw(runtime.session, symbols, inputs, outputs, arena, nullptr)), "OK");
  EXPECT_THAT(y.values, testing::Each(7.5f));
  EXPECT_EQ(reinterpret_cast<float*>(arena)[99], 2.5f);
}

// y = (x * 3) * 3, the first product in memory of y.
std::string InPlacePlan(const EntryList& in_place, int64_t length = 4) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const uint32_t n = p.Const(4), shorter = p.Const(length);
  const uint32_t x = p.Input(DType::F32, {n}), y = p.Output(DType::F32, {n});
  const uint32_t product = p.Buffer(DType::F32, plan::Storage::Output, 0, 0, {shorter});
  const uint32_t kernel = p.Kernel(p.Code(Kernels().digest), "scale");
  p.Run(p.Launch(kernel, {x, product}, shorter, {p.Const(3)}));
  p.Run(p.Launch(kernel, {product, y}, shorter, {p.Const(3)}, 0, 1, in_place));
  return p.Finish();
}

TEST(Run, WritesOverWhatItReadsWhereTheKernelAllows) {
  Runtime runtime;
  runtime.LoadAndBind(InPlacePlan({1, 0}));
  Floats x({1, 2, 3, 4}), y({0, 0, 0, 0});
  ASSERT_EQ(runtime.Run({x.tensor.tensor}, {y.tensor.tensor}), "OK");
  EXPECT_THAT(y.values, ElementsAre(9, 18, 27, 36));
}

TEST(Reject, BuffersThatOverlapUnasked) {
  for (const std::string& plan : {InPlacePlan({}), InPlacePlan({1, 0}, 3)}) {
    Runtime runtime;
    ASSERT_EQ(runtime.Load(plan), "OK");
    EXPECT_THAT(runtime.Bind(), HasSubstr("DATA_LOSS corrupt_artifact step 1: a kernel's buffers overlap"));
  }
  EXPECT_THAT(Runtime().Load(InPlacePlan({0, 1})), HasSubstr("in_place is not of what is written and read"));
  EXPECT_THAT(Runtime().Load(InPlacePlan({1})), HasSubstr("in_place is no list of pairs"));
  EXPECT_THAT(Runtime().Load(InPlacePlan({1, 2})), HasSubstr("DATA_LOSS corrupt_artifact step 1"));
}

TEST(Run, ProfilesEachStep) {
  Runtime runtime;
  runtime.LoadAndBind(ChainPlan());
  Floats x(std::vector<float>(1000, 2.0f)), y(std::vector<float>(1000, 0.0f));
  preheat_session_profile(runtime.session, 1);
  ASSERT_EQ(runtime.Run({x.tensor.tensor}, {y.tensor.tensor}), "OK");
  preheat_step_time times[4];
  ASSERT_EQ(preheat_session_step_times(runtime.session, times, 4), 2u);
  EXPECT_STREQ(times[0].name, "add");
  EXPECT_STREQ(times[1].name, "scale");
  EXPECT_GT(times[0].seconds, 0);
  EXPECT_EQ(preheat_session_step_times(runtime.session, nullptr, 0), 2u);
}

TEST(Describe, TellsTheBoundary) {
  Runtime runtime;
  ASSERT_EQ(runtime.Load(ChainPlan()), "OK");
  ASSERT_EQ(preheat_num_inputs(runtime.executable), 1u);
  ASSERT_EQ(preheat_num_outputs(runtime.executable), 1u);
  ASSERT_EQ(preheat_num_symbols(runtime.executable), 1u);
  EXPECT_STREQ(preheat_symbol_name(runtime.executable, 0), "d0");
  EXPECT_EQ(preheat_input(runtime.executable, 0).dtype, static_cast<int32_t>(DType::F32));
  EXPECT_EQ(preheat_output(runtime.executable, 0).mutates, -1);
  Floats x(std::vector<float>(33, 0.0f));
  int64_t symbol = 0, size = 0, stride = 0;
  ASSERT_EQ(Take(preheat_bind_symbols(runtime.executable, &x.tensor.tensor, 1, &symbol)), "OK");
  EXPECT_EQ(symbol, 33);
  preheat_output_shape(runtime.executable, &symbol, 0, &size, &stride);
  EXPECT_EQ(size, 33);
  EXPECT_EQ(stride, 1);
}

// --- What a caller may get wrong ---

TEST(Reject, NamesTheInputAndTheReason) {
  Runtime runtime;
  runtime.LoadAndBind(ChainPlan(64));
  Floats x(std::vector<float>(64, 2.0f)), y(std::vector<float>(8, 0.0f));
  std::vector<float> memory(64);
  float* aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) / 4 % 16;
  const auto run = [&](Tensor& input) { return runtime.Run({input.tensor}, {y.tensor.tensor}); };

  Tensor good(DType::F32, {8}, aligned);
  EXPECT_EQ(run(good), "OK");
  Tensor integers(DType::I64, {8}, aligned);
  EXPECT_EQ(run(integers), "INVALID_ARGUMENT dtype_mismatch input 0: expected f32, got i64");
  Tensor matrix(DType::F32, {2, 4}, aligned);
  EXPECT_EQ(run(matrix), "INVALID_ARGUMENT shape_mismatch input 0: expected 1 dimensions, got 2");
  Tensor strided(DType::F32, {8}, aligned);
  strided.strides_[0] = 2;
  EXPECT_EQ(run(strided), "INVALID_ARGUMENT layout_mismatch input 0: expected strides [1] for sizes [8], got [2]");
  Tensor unaligned(DType::F32, {8}, aligned + 1);
  EXPECT_THAT(run(unaligned), HasSubstr("layout_mismatch input 0: expected an address that is a multiple of 64"));
  Tensor nowhere(DType::F32, {8}, nullptr);
  EXPECT_THAT(run(nowhere), HasSubstr("layout_mismatch input 0: the tensor has no memory"));
  Tensor elsewhere(DType::F32, {8}, aligned);
  elsewhere.tensor.device_type = PREHEAT_CUDA;
  EXPECT_THAT(run(elsewhere), HasSubstr("layout_mismatch input 0"));
  Tensor large(DType::F32, {1001}, aligned);
  EXPECT_EQ(run(large), "OUT_OF_RANGE size_out_of_range input 0: dimension 0 (d0) is 1001, the plan takes 1 to 1000");
  Tensor other(DType::F32, {9}, aligned);
  EXPECT_EQ(run(other), "INVALID_ARGUMENT shape_mismatch output 0: expected sizes [9], got [8]");
  EXPECT_THAT(runtime.Run({}, {y.tensor.tensor}), HasSubstr("input_count : expected 1 inputs, got 0"));
  EXPECT_THAT(runtime.Run({good.tensor}, {}), HasSubstr("input_count : expected 1 outputs, got 0"));
}

TEST(Reject, AStrideOfOneElementMayBeAnything) {
  Runtime runtime;
  runtime.LoadAndBind(ChainPlan());
  Floats x({2.0f}), y({0.0f});
  x.tensor.strides_[0] = 77;
  EXPECT_EQ(runtime.Run({x.tensor.tensor}, {y.tensor.tensor}), "OK");
  EXPECT_EQ(y.values[0], 7.5f);
}

TEST(Reject, GuardsAndIncompatiblePlans) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const uint32_t d0 = p.Symbol("d0", 0, 100, 0, 0);
  p.Input(DType::F32, {d0});
  p.Guard(p.Op(plan::SizeOp::Add, d0, p.Const(-8)), "d0 >= 8");
  Runtime runtime;
  runtime.LoadAndBind(p.Finish());
  Floats x(std::vector<float>(7, 0.0f));
  EXPECT_EQ(runtime.Run({x.tensor.tensor}, {}),
            "OUT_OF_RANGE size_out_of_range : the plan needs d0 >= 8, which these sizes do not fulfil");

  flatbuffers::FlatBufferBuilder newer;
  PlanForTest future(newer);
  future.version = 99;
  EXPECT_THAT(Runtime().Load(future.Finish()),
              HasSubstr("FAILED_PRECONDITION incompatible_plan : the plan has version 99, this runtime executes 1"));
  flatbuffers::FlatBufferBuilder foreign;
  PlanForTest elsewhere(foreign);
  elsewhere.target = "cpu:x86-64-v9";
  EXPECT_THAT(Runtime().Load(elsewhere.Finish()), HasSubstr("FAILED_PRECONDITION unsupported_cpu"));
  EXPECT_THAT(Runtime().Load("no plan"), HasSubstr("DATA_LOSS corrupt_artifact"));
}

TEST(Reject, CodeThatDoesNotCome) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  p.Code(std::string(64, 'a'));
  EXPECT_THAT(Runtime().Load(p.Finish()), HasSubstr("DATA_LOSS corrupt_artifact : the code aaaa"));
}

// --- Library steps ---

struct Linear {
  static constexpr int64_t kIn = 3, kOut = 4;
  std::vector<float> weight = {1, 0, 0, 2, 0, -1, 1, 1, 1, 0, 3, 0};  // [3, 4]
  std::vector<float> bias = {0, 1, 2, 3};
  Tensor weight_tensor{DType::F32, {kIn, kOut}, weight.data()};
  Tensor bias_tensor{DType::F32, {kOut}, bias.data()};

  std::vector<preheat_tensor> frozen() const { return {weight_tensor.tensor, bias_tensor.tensor}; }

  std::vector<float> Of(const std::vector<float>& x) const {
    std::vector<float> y;
    for (size_t row = 0; row < x.size() / kIn; ++row) {
      for (int64_t j = 0; j < kOut; ++j) {
        float sum = bias[j];
        for (int64_t k = 0; k < kIn; ++k) sum += x[row * kIn + k] * weight[k * kOut + j];
        y.push_back(std::max(sum, 0.0f));
      }
    }
    return y;
  }
};

// y = relu(x w + b); w and b are frozen. `doubled`: the prologue keeps twice b in the session's memory.
std::string LinearPlan(bool doubled) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const uint32_t d0 = p.Symbol("d0", 0, 100, 0, 0), in = p.Const(Linear::kIn), out = p.Const(Linear::kOut);
  const uint32_t x = p.Input(DType::F32, {d0, in}, false, 4), w = p.Input(DType::F32, {in, out}, true, 4);
  uint32_t b = p.Input(DType::F32, {out}, true, 4);
  const uint32_t y = p.Output(DType::F32, {d0, out});
  if (doubled) {
    const uint32_t kept = p.Session(DType::F32, {out});
    p.Prologue(p.Launch(p.Kernel(p.Code(Kernels().digest), "scale"), {b, kept}, out, {p.Const(2)}));
    b = kept;
  }
  p.Run(p.MatMul(p.Operand(x), p.Operand(w), p.Operand(y),
                 {p.Epilogue(plan::EpilogueOp::Bias, p.Operand(b)), p.Epilogue(plan::EpilogueOp::Relu)}, true));
  return p.Finish();
}

TEST(Library, MultipliesWithFrozenWeightsAndEpilogues) {
  Linear linear;
  Runtime runtime;
  runtime.LoadAndBind(LinearPlan(false), linear.frozen());
  for (const int64_t rows : {2, 5, 0, 2}) {
    std::vector<float> x(rows * Linear::kIn), y(rows * Linear::kOut);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 2;
    Tensor in(DType::F32, {rows, Linear::kIn}, x.data()), out(DType::F32, {rows, Linear::kOut}, y.data());
    ASSERT_EQ(runtime.Run({in.tensor}, {out.tensor}), "OK");
    EXPECT_EQ(y, linear.Of(x));
  }
}

TEST(Library, RefreshSeesNewContentsAndNewTensors) {
  Linear linear;
  Runtime runtime;
  runtime.LoadAndBind(LinearPlan(true), linear.frozen());
  std::vector<float> x = {1, 2, 3}, y(4);
  Tensor in(DType::F32, {1, 3}, x.data()), out(DType::F32, {1, 4}, y.data());
  const auto expected = [&](Linear values) {
    for (float& b : values.bias) b *= 2;
    return values.Of(x);
  };
  ASSERT_EQ(runtime.Run({in.tensor}, {out.tensor}), "OK");
  Linear copy;
  EXPECT_EQ(y, expected({copy.weight, copy.bias}));
  linear.weight[0] = 5;
  linear.bias[1] = 9;
  ASSERT_EQ(Take(preheat_session_refresh(runtime.session, nullptr, 0)), "OK");
  ASSERT_EQ(runtime.Run({in.tensor}, {out.tensor}), "OK");
  EXPECT_EQ(y, expected({linear.weight, linear.bias}));
  Linear other;
  other.weight.assign(12, 0.5f);
  const std::vector<preheat_tensor> frozen = other.frozen();
  ASSERT_EQ(Take(preheat_session_refresh(runtime.session, frozen.data(), frozen.size())), "OK");
  ASSERT_EQ(runtime.Run({in.tensor}, {out.tensor}), "OK");
  EXPECT_EQ(y, expected({other.weight, other.bias}));
}

TEST(Library, AnOperandThatLeavesItsBufferIsRefused) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const EntryList square = p.Consts({4, 4});
  const uint32_t x = p.Input(DType::F32, square), y = p.Output(DType::F32, square);
  p.Run(p.MatMul(p.Operand(x), p.View(x, square, p.Consts({4, 1}), p.Const(1)), p.Operand(y)));
  Runtime runtime;
  ASSERT_EQ(runtime.Load(p.Finish()), "OK");
  EXPECT_THAT(runtime.Bind(), HasSubstr("DATA_LOSS corrupt_artifact step 0: an operand leaves its buffer"));
}

// --- Error word, scratch, mutation, integer inputs ---

TEST(ErrorWord, NamesTheOperator) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const uint32_t n = p.Const(4);
  const uint32_t x = p.Input(DType::F32, {n}), index = p.Input(DType::I64, {n}), y = p.Output(DType::F32, {n});
  p.ErrorSite("aten.other.default");
  p.ErrorSite("aten.embedding.default");
  p.Run(p.Launch(p.Kernel(p.Code(Kernels().digest), "take"), {x, index, y}, n, {n}));
  Runtime runtime;
  runtime.LoadAndBind(p.Finish());
  Floats values({1, 2, 3, 4}), result({0, 0, 0, 0});
  std::vector<int64_t> indices = {3, 0, 1, 1};
  Tensor index_tensor(DType::I64, {4}, indices.data());
  const auto run = [&] { return runtime.Run({values.tensor.tensor, index_tensor.tensor}, {result.tensor.tensor}); };
  EXPECT_EQ(run(), "OK");
  EXPECT_THAT(result.values, ElementsAre(4, 1, 2, 2));
  indices[2] = 4;
  EXPECT_EQ(run(),
            "OUT_OF_RANGE index_out_of_range aten.embedding.default: aten.embedding.default: an index is out of "
            "range");
  indices[2] = 0;
  EXPECT_EQ(run(), "OK");
}

TEST(ErrorWord, TheFifthSiteIsADivision) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const uint32_t n = p.Const(1);
  const uint32_t x = p.Input(DType::I64, {n}), y = p.Output(DType::I64, {n});
  for (const char* op : {"", "", "", "", "aten.remainder.Tensor"}) p.ErrorSite(op);
  p.Run(p.Launch(p.Kernel(p.Code(Kernels().digest), "fails_at"), {x, y}, n));
  Runtime runtime;
  runtime.LoadAndBind(p.Finish());
  std::vector<int64_t> site = {5}, out = {0};
  Tensor given(DType::I64, {1}, site.data()), result(DType::I64, {1}, out.data());
  EXPECT_EQ(
      runtime.Run({given.tensor}, {result.tensor}),
      "OUT_OF_RANGE division_by_zero aten.remainder.Tensor: aten.remainder.Tensor: an integer is divided by zero");
}

TEST(Scratch, IsEachThreadsOwn) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const uint32_t n = p.Const(100000);
  const uint32_t x = p.Input(DType::F32, {n}), y = p.Output(DType::F32, {n});
  p.Run(p.Launch(p.Kernel(p.Code(Kernels().digest), "through_scratch"), {x, y}, n, {}, p.Const(4), 1000));
  Runtime runtime;
  runtime.LoadAndBind(p.Finish());
  Floats in(std::vector<float>(100000)), out(std::vector<float>(100000));
  for (size_t i = 0; i < in.values.size(); ++i) in.values[i] = static_cast<float>(i);
  ASSERT_EQ(runtime.Run({in.tensor.tensor}, {out.tensor.tensor}), "OK");
  EXPECT_EQ(in.values, out.values);
}

TEST(Mutation, WritesTheCallersInput) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const uint32_t n = p.Const(3), x = p.Input(DType::F32, {n});
  p.Mutates(x, 0);
  p.Run(p.Launch(p.Kernel(p.Code(Kernels().digest), "increment"), {x}, n));
  Runtime runtime;
  runtime.LoadAndBind(p.Finish());
  EXPECT_EQ(preheat_input(runtime.executable, 0).mutated, 1);
  Floats values({1, 2, 3});
  ASSERT_EQ(runtime.Run({values.tensor.tensor}, {}), "OK");
  EXPECT_THAT(values.values, ElementsAre(2, 3, 4));
}

TEST(Mutation, OfAnInputThatNoOutputNamesIsRefused) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const uint32_t n = p.Const(3), x = p.Input(DType::F32, {n});
  p.Run(p.Launch(p.Kernel(p.Code(Kernels().digest), "increment"), {x}, n));
  EXPECT_THAT(Runtime().Load(p.Finish()), HasSubstr("step 0: a step writes an input that no output mutates"));
}

TEST(SizeInputs, ArePassedByValueAndReadByKernels) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const uint32_t n = p.SizeInput();
  const uint32_t s = p.Symbol("n", 0, 50, 0, -1);
  const uint32_t read = p.Output(DType::I64, {}), scalar = p.Output(DType::I64, {});
  const uint32_t code = p.Code(Kernels().digest), one = p.Const(1);
  p.Run(p.Launch(p.Kernel(code, "copy_size"), {n, read}, one));
  p.Run(p.Launch(p.Kernel(code, "store_scalar"), {scalar}, one, {s}));
  Runtime runtime;
  runtime.LoadAndBind(p.Finish());
  EXPECT_EQ(preheat_input(runtime.executable, 0).is_size, 1);
  Tensor in(DType::I64, {42}, nullptr);
  int64_t a = 0, b = 0;
  Tensor first(DType::I64, {}, &a), second(DType::I64, {}, &b);
  ASSERT_EQ(runtime.Run({in.tensor}, {first.tensor, second.tensor}), "OK");
  EXPECT_EQ(a, 42);
  EXPECT_EQ(b, 42);
  Tensor large(DType::I64, {51}, nullptr);
  EXPECT_THAT(runtime.Run({large.tensor}, {first.tensor, second.tensor}),
              HasSubstr("size_out_of_range input 0: its value (n) is 51"));
}

// --- Extern calls ---

struct Seen {
  std::string op, call;
  int64_t defined = 0;
  bool fail = false;
};

// result = operand + 10
preheat_status* AddTen(void* context, const preheat_extern_call* call) {
  Seen& seen = *static_cast<Seen*>(context);
  seen.op = call->op;
  seen.call = call->call;
  if (seen.fail) return preheat_status_new("INVALID_ARGUMENT", "extern_failed", "torch says no");
  const float* from = static_cast<const float*>(call->operands[0].data);
  float* to = static_cast<float*>(call->results[0].data);
  for (int64_t i = 0; i < call->operands[0].sizes[0]; ++i) to[i] = from[i] + 10;
  if (call->num_defined > 0) call->defined[0] = seen.defined;
  return nullptr;
}

std::string ExternPlan(const char* call) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const uint32_t d0 = p.Symbol("d0", 0, 100, 0, 0);
  const uint32_t x = p.Input(DType::F32, {d0}), y = p.Output(DType::F32, {d0}), mid = p.Arena(DType::F32, {d0});
  p.Run(p.Launch(p.Kernel(p.Code(Kernels().digest), "scale"), {x, mid}, d0, {p.Const(2)}));
  p.Run(p.Extern("aten.sort.stable", call, {mid}, {y}));
  return p.Finish();
}

TEST(Extern, CallsTheHandlerWithSizesAsNumbers) {
  Seen seen;
  Runtime runtime;
  runtime.LoadAndBind(
      ExternPlan(R"json({"args":[{"v":{"e":"2*d0 + floordiv(d0 - 1, 2)"}},{"v":{"is":[1,{"e":"-d0"}]}}]})json"), {},
      &AddTen, &seen);
  Floats x({1, 2, 3}), y({0, 0, 0});
  ASSERT_EQ(runtime.Run({x.tensor.tensor}, {y.tensor.tensor}), "OK");
  EXPECT_THAT(y.values, ElementsAre(12, 14, 16));
  EXPECT_EQ(seen.op, "aten.sort.stable");
  EXPECT_EQ(seen.call, R"({"args":[{"v":7},{"v":{"is":[1,-3]}}]})");
  seen.fail = true;
  EXPECT_EQ(runtime.Run({x.tensor.tensor}, {y.tensor.tensor}),
            "INVALID_ARGUMENT extern_failed step 1 (extern aten.sort.stable): torch says no");
}

TEST(Extern, NeedsAHandlerAndSoundText) {
  Runtime runtime;
  ASSERT_EQ(runtime.Load(ExternPlan("{}")), "OK");
  EXPECT_THAT(runtime.Bind(), HasSubstr("FAILED_PRECONDITION extern_needs_torch : the artifact calls operators that "
                                        "only torch has: aten.sort.stable"));
  Floats x({1}), y({0});
  for (const char* text : {R"({"e":"d7"})", R"({"e":"d0 +"})", R"({"e":"(((d0"})", R"({"e":"99999999999999999999"})"}) {
    Seen seen;
    Runtime bad;
    bad.LoadAndBind(ExternPlan(text), {}, &AddTen, &seen);
    EXPECT_THAT(bad.Run({x.tensor.tensor}, {y.tensor.tensor}), HasSubstr("DATA_LOSS corrupt_artifact"));
  }
}

// --- Sizes that steps define, and control flow ---

// n = how many of x are positive; mid[n] = 10 + x[:n] by an extern call; y = 3 * mid, written into y[:n].
TEST(ReadScalar, BindsSizesOnTheWay) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const uint32_t d0 = p.Symbol("d0", 1, 1000, 0, 0), n = p.Symbol("u0", 0, 1000, -1, -1);
  const uint32_t x = p.Input(DType::F32, {d0}), y = p.Output(DType::F32, {d0});
  const uint32_t count = p.Arena(DType::I64, {}), keep = p.Arena(DType::F32, {d0}), mid = p.Arena(DType::F32, {n});
  const uint32_t code = p.Code(Kernels().digest), scale = p.Kernel(code, "scale");
  p.Run(p.Launch(scale, {x, keep}, d0, {p.Const(1)}));
  p.Run(p.Launch(p.Kernel(code, "count_positive"), {x, count}, p.Const(1), {d0}));
  p.Run(p.ReadScalar(count, 1));
  p.Run(p.Launch(scale, {keep, mid}, n, {p.Const(2)}));
  p.Run(p.Launch(scale, {mid, y}, n, {p.Const(3)}));
  Runtime runtime;
  runtime.LoadAndBind(p.Finish());
  for (const size_t positive : {900u, 3u, 0u, 1000u}) {
    Floats in(std::vector<float>(1000, -1.0f)), out(std::vector<float>(1000, 0.0f));
    std::fill_n(in.values.begin(), positive, 1.0f);
    ASSERT_EQ(runtime.Run({in.tensor.tensor}, {out.tensor.tensor}), "OK");
    EXPECT_EQ(std::count(out.values.begin(), out.values.end(), 6.0f), static_cast<int64_t>(positive));
  }
}

TEST(ReadScalar, OfASizeOutOfItsRangeIsAnError) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  p.Symbol("u0", 5, 9, -1, -1);
  const uint32_t x = p.Input(DType::I64, {}, false, 8);
  p.Run(p.ReadScalar(x, 0));
  Runtime runtime;
  runtime.LoadAndBind(p.Finish());
  int64_t value = 4;
  Tensor in(DType::I64, {}, &value);
  EXPECT_THAT(runtime.Run({in.tensor}, {}), HasSubstr("OUT_OF_RANGE size_out_of_range step 0 (ReadScalar): a computed "
                                                      "size (u0) is 4, the plan takes 5 to 9"));
}

// y = x * factor
flatbuffers::Offset<plan::Plan> ScalePlan(flatbuffers::FlatBufferBuilder& fbb, int64_t factor) {
  PlanForTest p(fbb);
  const uint32_t d0 = p.Symbol("d0", 0, 1000, 0, 0);
  const uint32_t x = p.Input(DType::F32, {d0}), y = p.Output(DType::F32, {d0});
  p.Run(p.Launch(p.Kernel(p.Code(Kernels().digest), "scale"), {x, y}, d0, {p.Const(factor)}));
  return p.Build();
}

TEST(If, TakesTheBranchThatTheConditionSays) {
  flatbuffers::FlatBufferBuilder fbb;
  const auto then_plan = ScalePlan(fbb, 2), else_plan = ScalePlan(fbb, 5);
  PlanForTest p(fbb);
  const uint32_t d0 = p.Symbol("d0", 1, 1000, 1, 0);
  const uint32_t condition = p.Input(DType::Bool, {}, false, 1), x = p.Input(DType::F32, {d0});
  const uint32_t y = p.Output(DType::F32, {d0});
  p.Run(p.If(condition, p.Subplan(then_plan), p.Subplan(else_plan), {x, y}));
  Runtime runtime;
  runtime.LoadAndBind(p.Finish());
  Floats in({1, 2}), out({0, 0});
  bool flag = true;
  Tensor flag_tensor(DType::Bool, {}, &flag);
  ASSERT_EQ(runtime.Run({flag_tensor.tensor, in.tensor.tensor}, {out.tensor.tensor}), "OK");
  EXPECT_THAT(out.values, ElementsAre(2, 4));
  flag = false;
  ASSERT_EQ(runtime.Run({flag_tensor.tensor, in.tensor.tensor}, {out.tensor.tensor}), "OK");
  EXPECT_THAT(out.values, ElementsAre(5, 10));
}

// The state is one input, which the loop's body increments while it is under ten.
std::string LoopPlan(int64_t limit) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest condition(fbb);
  const uint32_t x = condition.Input(DType::F32, {condition.Const(1)}), more = condition.Output(DType::Bool, {});
  condition.Run(condition.Launch(condition.Kernel(condition.Code(Kernels().digest), "less_than_ten"), {x, more},
                                 condition.Const(1)));
  const auto condition_plan = condition.Build();
  PlanForTest body(fbb);
  const uint32_t state = body.Input(DType::F32, {body.Const(1)});
  body.Mutates(state, 0);
  body.Run(body.Launch(body.Kernel(body.Code(Kernels().digest), "increment"), {state}, body.Const(1)));
  const auto body_plan = body.Build();
  PlanForTest p(fbb);
  const uint32_t in = p.Input(DType::F32, {p.Const(1)});
  p.Mutates(in, 0);
  p.Run(p.While(p.Subplan(condition_plan), p.Subplan(body_plan), {in}, limit));
  return p.Finish();
}

TEST(While, RunsUntilTheConditionEndsIt) {
  Runtime runtime;
  runtime.LoadAndBind(LoopPlan(100));
  Floats state({2.5f});
  ASSERT_EQ(runtime.Run({state.tensor.tensor}, {}), "OK");
  EXPECT_THAT(state.values, ElementsAre(10.5f));
  Runtime limited;
  limited.LoadAndBind(LoopPlan(3));
  state.values[0] = 0;
  EXPECT_THAT(limited.Run({state.tensor.tensor}, {}), HasSubstr("OUT_OF_RANGE loop_limit"));
  EXPECT_THAT(state.values, ElementsAre(3.0f));
}

TEST(CallPlan, RunsASubplanAndRefusesOneThatDoesNotFit) {
  for (const bool fits : {true, false}) {
    flatbuffers::FlatBufferBuilder fbb;
    const auto subplan = ScalePlan(fbb, 7);
    PlanForTest p(fbb);
    const uint32_t x = p.Input(DType::F32, {p.Const(2)}), y = p.Output(DType::F32, {p.Const(2)});
    p.Run(p.CallPlan(p.Subplan(subplan), fits ? EntryList{x, y} : EntryList{x, x}));
    Runtime runtime;
    if (!fits) {
      EXPECT_THAT(runtime.Load(p.Finish()), HasSubstr("a step writes an input that no output mutates"));
      continue;
    }
    runtime.LoadAndBind(p.Finish());
    Floats in({1, 2}), out({0, 0});
    ASSERT_EQ(runtime.Run({in.tensor.tensor}, {out.tensor.tensor}), "OK");
    EXPECT_THAT(out.values, ElementsAre(7, 14));
  }
}

// --- Threads ---

TEST(Concurrency, OneSessionServesManyThreadsAtManySizes) {
  Linear linear;
  Runtime chain, library;
  chain.LoadAndBind(ChainPlan());
  library.LoadAndBind(LinearPlan(true), linear.frozen());
  for (float& b : linear.bias) b *= 2;  // only the copy that `Of` reads: the session has its own
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        const int64_t n = 1 + (t * 37 + i * 11) % 90;
        Floats x(std::vector<float>(n, static_cast<float>(t))), y(std::vector<float>(n, 0.0f));
        if (chain.Run({x.tensor.tensor}, {y.tensor.tensor}) != "OK") ++wrong;
        for (float v : y.values) wrong += v != (static_cast<float>(t) + 0.5f) * 3;
        std::vector<float> a(n * Linear::kIn, static_cast<float>(i % 5)), b(n * Linear::kOut);
        Tensor in(DType::F32, {n, Linear::kIn}, a.data()), out(DType::F32, {n, Linear::kOut}, b.data());
        if (library.Run({in.tensor}, {out.tensor}) != "OK") ++wrong;
        wrong += b != linear.Of(a);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

#if !defined(__SANITIZE_THREAD__)
// Whatever threads the parent's libraries had: a child (a DataLoader's worker) has none of them, and must not wait for
// them.
TEST(Fork, AChildRunsTheParentsSession) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const EntryList square = p.Consts({256, 256});
  const uint32_t a = p.Input(DType::F32, square, false, 4), b = p.Input(DType::F32, square, false, 4);
  p.Run(p.MatMul(p.Operand(a), p.Operand(b), p.Operand(p.Output(DType::F32, square))));
  Runtime runtime;
  runtime.LoadAndBind(p.Finish());
  std::vector<float> ones(256 * 256, 1.0f), result(256 * 256, 0.0f);
  Tensor in(DType::F32, {256, 256}, ones.data()), out(DType::F32, {256, 256}, result.data());
  const auto right = [&] {
    return runtime.Run({in.tensor, in.tensor}, {out.tensor}) == "OK" &&
           std::all_of(result.begin(), result.end(), [](float v) { return v == 256.0f; });
  };
  ASSERT_TRUE(right());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    std::fill(result.begin(), result.end(), 0.0f);
    _exit(right() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}
#endif

// --- Beside torch ---

#if defined(PREHEAT_TEST_PYTHON) && !defined(ABSL_HAVE_ADDRESS_SANITIZER) && !defined(ABSL_HAVE_THREAD_SANITIZER)
// In processes of their own: torch cannot be unloaded. Sanitizers must come first in a process, which Python's is not.
TEST(BesideTorch, MultipliesInEitherOrderOfLoading) {
  flatbuffers::FlatBufferBuilder fbb;
  PlanForTest p(fbb);
  const EntryList square = p.Consts({64, 64});
  const uint32_t a = p.Input(DType::F32, square, false, 4), b = p.Input(DType::F32, square, false, 4);
  p.Run(p.MatMul(p.Operand(a), p.Operand(b), p.Operand(p.Output(DType::F32, square))));
  const TestFolder folder;
  const std::string file = folder.path + "/matmul.plan";
  std::ofstream(file, std::ios::binary) << p.Finish();
  for (const char* order : {"torch-first", "runtime-first"}) {
    auto python = Subprocess::Start(
        {PREHEAT_TEST_PYTHON, PREHEAT_SOURCE_DIR "/kernels/runtime/torch_order.py", PREHEAT_TEST_RUNTIME, file, order});
    ASSERT_TRUE(python.ok()) << python.status();
    EXPECT_TRUE((*python)->Wait().Clean()) << order;
  }
}
#endif

// --- Damage ---

// A copy with up to three bytes changed, or cut short.
std::string Damaged(std::string plan, std::mt19937& random) {
  for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
    plan[random() % plan.size()] = static_cast<char>(random() % 4 == 0 ? random() : random() % 4);
  }
  if (random() % 8 == 0) plan.resize(random() % plan.size());
  return plan;
}

// Plans with kernels are refused, or load and describe themselves. They are not run: the digest of a plan is checked
// before it gets here, and kernels trust it.
TEST(Damage, NeverCrashesOnLoad) {
  const std::vector<std::string> plans = {ChainPlan(), LinearPlan(true), LoopPlan(3), ExternPlan(R"({"e":"d0"})")};
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    Runtime runtime;
    if (runtime.Load(Damaged(plans[i % plans.size()], random)) != "OK") {
      ++refused;
      continue;
    }
    std::vector<int64_t> symbols(preheat_num_symbols(runtime.executable) + 1, 5), shape(64);
    for (size_t input = 0; input < preheat_num_inputs(runtime.executable); ++input) {
      preheat_input_shape(runtime.executable, symbols.data(), input, shape.data(), shape.data() + 32);
    }
    preheat_arena_bytes(runtime.executable, symbols.data());
    Floats x({1, 2, 3, 4, 5});
    Take(preheat_bind_symbols(runtime.executable, &x.tensor.tensor, 1, symbols.data()));
  }
  EXPECT_GT(refused, 500);
}

// A plan of library calls alone has nothing to trust: whatever is bound and run stays in its memory.
TEST(Damage, NeverLeavesMemoryInLibraryPlans) {
  const std::string plan = LinearPlan(false);
  std::mt19937 random(2);
  int ran = 0;
  for (int i = 0; i < 2000; ++i) {
    Linear linear;
    Runtime runtime;
    if (runtime.Load(Damaged(plan, random)) != "OK" || runtime.Bind(linear.frozen()) != "OK") continue;
    std::vector<float> x(2 * Linear::kIn, 1.0f), y(2 * Linear::kOut);
    Tensor in(DType::F32, {2, Linear::kIn}, x.data()), out(DType::F32, {2, Linear::kOut}, y.data());
    ran += runtime.Run({in.tensor}, {out.tensor}) == "OK";
  }
  EXPECT_GT(ran, 100);
}

}  // namespace
}  // namespace preheat::runtime
