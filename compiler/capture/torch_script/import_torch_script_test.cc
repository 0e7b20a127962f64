#include "compiler/capture/torch_script/import_torch_script.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/resolver.h>

#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/capture/functionalize.h"
#include "compiler/reference/reference.h"
#include "compiler/support/error.h"

// TorchScript's own interpreter beside the program that the importer makes of a module.
namespace preheat {
namespace {

using c10::IValue;
using reference::HostTensor;

// A method `forward(self, x, n)` of x f32[4] and n i64[]; what a module computes for both signs of everything.
struct Script {
  const char* name;
  const char* forward;
};

const Script kScripts[] = {
    {"nested_branches", R"(
def forward(self, x, n):
    if bool(x[0] > 0):
        if bool(x[1] > 0):
            y = x * 2
        else:
            y = x - 1
        y = y + 1
    else:
        y = -x
    return y * n
)"},
    {"early_returns", R"(
def forward(self, x, n):
    if bool(x.sum() > 1):
        return x
    if bool(x.sum() > 0):
        return x + 1
    return x.exp()
)"},
    {"and_or_not", R"(
def forward(self, x, n):
    a = bool(x[0] > 0)
    b = bool(x[1] > 0)
    y = x
    if a and not b:
        y = y + 1
    if a or b:
        y = y * 3
    if not a:
        y = y - x[0].item()
    return y, a
)"},
    {"numbers", R"(
def forward(self, x, n):
    k = int(n)
    f = float(x[0])
    total = k * 2 + 1 - 3
    half = k / 2
    if f > 0.0 and k >= 1:
        total = total + k
        half = half * f
    return x * half + total, k, f
)"},
    {"int_and", R"(
def forward(self, x, n):
    k = int(n)
    return x + (k & 6) + (k | 1)
)"},
    {"while_counts", R"(
def forward(self, x, n):
    steps = 0
    while bool(x.abs().max() > 0.125) and steps < 5:
        x = x * 0.5
        steps += 1
    return x, steps
)"},
    {"for_tensor", R"(
def forward(self, x, n):
    y = x
    for i in range(int(n)):
        y = y * 0.5 + i
    return y
)"},
    {"break_and_continue", R"(
def forward(self, x, n):
    y = torch.zeros_like(x)
    for i in range(6):
        if bool(x[0] * i > 2):
            break
        if bool(x[1] > i):
            continue
        y = y + x * i
    return y
)"},
    {"branch_in_loop", R"(
def forward(self, x, n):
    count = 0
    for i in range(int(n)):
        if bool(x.sum() > 0):
            x = x - 1
        else:
            x = x + 2
            count += i
    return x, count
)"},
    {"loop_in_branch", R"(
def forward(self, x, n):
    if bool(x[0] > 0):
        for i in range(int(n)):
            x = x + i
    else:
        k = 0
        while k < int(n) * 2:
            x = x * 2
            k += 1
    return x
)"},
    {"loop_in_loop", R"(
def forward(self, x, n):
    y = x
    for i in range(int(n)):
        while bool(y.max() < i):
            y = y + 1
    return y
)"},
    {"tuples", R"(
def forward(self, x, n):
    pair = (x, x + 1)
    if bool(x[0] > 0):
        pair = (pair[1], pair[0] * 2)
    a, b = pair
    return a - b, a
)"},
    {"return_in_loop", R"(
def forward(self, x, n):
    for i in range(5):
        x = x + 0.5
        if bool(x.sum() > 3):
            return x * 10
    return x
)"},
    {"local_writes", R"(
def forward(self, x, n):
    if bool(x[0] > 0):
        y = x.clone()
        y.mul_(2)
        y[0] = 5
    else:
        y = x + 1
    return y
)"},
    {"result_unused", R"(
def forward(self, x, n):
    y = x
    if bool(x[0] > 0):
        z = x * 2
    return y + 1
)"},
    {"endless_loop", R"(
def forward(self, x, n):
    rounds = 0.5
    while True:
        x = x * 0.75
        if bool(x.abs().max() < 0.25):
            break
        rounds = rounds + 1.0
    return x, rounds
)"},
    {"a_list_of_fixed_length", R"(
def forward(self, x, n):
    parts = [x]
    for i in range(3):
        if bool(x[i] > 0):
            y = parts[-1] * 2
        else:
            y = parts[-1] - 1
        parts.append(y)
    return torch.stack(parts).sum(0)
)"},
    {"swaps", R"(
def forward(self, x, n):
    a = x
    b = x + 1
    for i in range(int(n)):
        t = a
        a = b
        b = t * 0.5
    return a, b
)"},
};

HostTensor Host(const at::Tensor& tensor, ir::DType dtype) {
  const at::Tensor dense = tensor.contiguous();
  HostTensor host = reference::MakeTensor(dtype, dense.sizes().vec());
  if (!host.bytes.empty()) std::memcpy(host.bytes.data(), dense.data_ptr(), host.bytes.size());
  return host;
}

// A module's results, in the order of a program's.
void Flatten(const IValue& value, std::vector<at::Tensor>& out) {
  if (value.isTuple()) {
    for (const IValue& item : value.toTupleRef().elements()) Flatten(item, out);
  } else if (value.isTensor()) {
    out.push_back(value.toTensor());
  } else {
    out.push_back(value.isBool()  ? at::scalar_tensor(value.toBool(), at::kBool)
                  : value.isInt() ? at::scalar_tensor(value.toInt(), at::kLong)
                                  : at::scalar_tensor(value.toDouble(), at::kDouble));
  }
}

torch::jit::Module Define(const Script& script) {
  torch::jit::Module module(std::string("__torch__.") + script.name);
  module.define(script.forward, torch::jit::nativeResolver());
  return module;
}

std::string Archive(const torch::jit::Module& module) {
  std::ostringstream archive;
  module.save(archive);
  return archive.str();
}

class TorchScriptTest : public testing::TestWithParam<Script> {};

TEST_P(TorchScriptTest, ProgramComputesWhatTheModuleDoes) {
  torch::jit::Module module = Define(GetParam());
  auto program =
      capture::ImportTorchScript({.archive = Archive(module), .inputs = {"x=f32[4]", "n=i64[]"}, .dims = {}});
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(capture::Functionalize(*program).ok());
  at::manual_seed(1);
  for (int64_t n = 0; n < 12; ++n) {
    const at::Tensor x = at::randn({4}), count = at::scalar_tensor(n % 5, at::kLong);
    std::vector<at::Tensor> want;
    Flatten(module.forward({x.clone(), count}), want);
    const std::vector<HostTensor> inputs = {Host(x, ir::DType::kF32), Host(count, ir::DType::kI64)};
    const auto got = reference::RunReference(*program, inputs, {});
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ((*got)[i].sizes, want[i].sizes().vec());
      EXPECT_EQ((*got)[i].bytes, Host(want[i], (*got)[i].dtype).bytes) << "output " << i << " of " << x << " " << count;
    }
  }
}

TEST(TorchScript, RefusesAListThatDataChanges) {
  torch::jit::Module module = Define({"grows", R"(
def forward(self, x, n):
    parts = [x]
    if bool(x[0] > 0):
        parts.append(x + 1)
    return torch.stack(parts).sum(0)
)"});
  const auto program =
      capture::ImportTorchScript({.archive = Archive(module), .inputs = {"x=f32[4]", "n=i64[]"}, .dims = {}});
  EXPECT_EQ(GetError(program.status()).kind, "data_dependent_control_flow") << program.status();
}

INSTANTIATE_TEST_SUITE_P(All, TorchScriptTest, testing::ValuesIn(kScripts),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace preheat
