// Writes the first inputs of every fuzz target: write_seeds FOLDER REJECTS, into
// FOLDER/{program,message,archive,plan,buckets,torch_script,torch_script_file}.

#include <google/protobuf/text_format.h>
#include <zip.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/load/made_programs.h"
#include "compiler/artifact/plan_generated.h"
#include "compiler/capture/program_proto.h"
#include "compiler/capture/test_programs.h"
#include "kernels/runtime/plan_for_test.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  explicit Folder(const fs::path& path) : path_(path) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  void Add(const std::string& bytes) { std::ofstream(path_ / std::to_string(count_++), std::ios::binary) << bytes; }
  fs::path Next() { return path_ / std::to_string(count_++); }

 private:
  const fs::path path_;
  int count_ = 0;
};

std::string Read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void AddZip(Folder& folder, const std::string& json) {
  int error = 0;
  zip_t* zip = zip_open(folder.Next().c_str(), ZIP_CREATE, &error);
  if (zip == nullptr) return;
  const std::string weight(64, 'w');
  const std::string config =
      R"({"config": {"weight": {"path_name": "weight_0", "use_pickle": false, "tensor_meta": {"dtype": 7, "sizes": [{"as_int": 4}],)"
      R"( "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}}}}})";
  const std::pair<const char*, const std::string*> entries[] = {{"m/models/model.json", &json},
                                                                {"m/data/weights/model_weights_config.json", &config},
                                                                {"m/data/weights/weight_0", &weight}};
  for (const auto& [name, text] : entries) {
    const zip_int64_t index =
        zip_file_add(zip, name, zip_source_buffer(zip, text->data(), text->size(), 0), ZIP_FL_ENC_UTF_8);
    zip_set_file_compression(zip, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  zip_close(zip);
}

// Arena, constants, a guard, a library call, an extern call and branches; no code, so that it can be loaded anywhere.
std::string SmallPlan() {
  using plan::DType;
  flatbuffers::FlatBufferBuilder fbb;
  runtime::PlanForTest p(fbb);
  const uint32_t d0 = p.Symbol("d0", 1, 1000, 0, 0);
  p.Guard(p.Op(plan::SizeOp::Add, d0, p.Const(-1)), "d0 >= 1");
  const uint32_t x = p.Input(DType::F32, {d0, p.Const(4)});
  const uint32_t y = p.Output(DType::F32, {d0, p.Const(8)});
  const std::vector<float> ones(32, 1.0f);
  const uint32_t w = p.Constant(DType::F32, p.Consts({4, 8}), ones.data(), ones.size() * 4);
  const uint32_t product = p.Arena(DType::F32, {d0, p.Const(8)});
  p.Run(p.MatMul(p.Operand(x), p.Operand(w), p.Operand(product)));
  p.Run(p.Extern("aten.sin.default", "{}", {product}, {y}));
  return p.Finish();
}

std::string BranchingPlan() {
  using plan::DType;
  flatbuffers::FlatBufferBuilder fbb;
  runtime::PlanForTest inner(fbb);
  const uint32_t in = inner.Input(DType::F32, inner.Consts({4})), out = inner.Output(DType::F32, inner.Consts({4}));
  inner.Run(inner.Extern("aten.neg.default", "{}", {in}, {out}));
  const auto body = inner.Build();
  runtime::PlanForTest p(fbb);
  const uint32_t x = p.Input(DType::F32, p.Consts({4})), y = p.Output(DType::F32, p.Consts({4}));
  const uint32_t condition = p.Input(DType::Bool, {});
  const uint32_t subplan = p.Subplan(body);
  p.Run(p.If(condition, subplan, subplan, {x, y}));
  p.Run(p.CallPlan(subplan, {x, y}));
  return p.Finish();
}

// A loop that counts up, whose state is one input: a branch inside it, and then a size that the input holds.
std::string LoopPlan() {
  using plan::DType;
  flatbuffers::FlatBufferBuilder fbb;
  runtime::PlanForTest condition(fbb);
  const uint32_t of = condition.Input(DType::I64, {}), more = condition.Output(DType::Bool, {});
  condition.Run(condition.Extern("aten.lt.Scalar", R"({"other": 10})", {of}, {more}));
  const auto condition_plan = condition.Build();
  runtime::PlanForTest step(fbb);
  const uint32_t from = step.Input(DType::I64, {}), to = step.Output(DType::I64, {});
  step.Run(step.Extern("aten.add.Scalar", R"({"other": 1})", {from}, {to}));
  const auto step_plan = step.Build();
  runtime::PlanForTest body(fbb);
  const uint32_t state = body.Input(DType::I64, {}), next = body.Arena(DType::I64, {});
  const uint32_t inner = body.Subplan(step_plan);
  body.Run(body.If(state, inner, inner, {state, next}));
  body.Run(body.Extern("aten.copy_.default", "{}", {next}, {state}));
  body.Mutates(state, 0);
  const auto body_plan = body.Build();
  runtime::PlanForTest p(fbb);
  const uint32_t x = p.Input(DType::I64, {});
  const uint32_t count = p.Symbol("s0", 0, 100, -1, -1);
  p.Mutates(x, 0);
  p.Run(p.While(p.Subplan(condition_plan), p.Subplan(body_plan), {x}, 1000));
  p.Run(p.ReadScalar(x, 0));
  p.Run(p.Extern("aten.arange.default", "{}", {}, {p.Arena(DType::F32, {count})}));
  return p.Finish();
}

// --- Programs with blocks ---

using capture::AtenProgram;
using capture::ProgramWriter;
using capture::T;
using capture::ValueRef;
using Operands = std::vector<std::optional<ValueRef>>;

AtenProgram Block(const char* op) {
  ProgramWriter block;
  block.Output(block.Call(op, {{"self", T(block.Input({4}))}}, {4}));
  return block.program;
}

// Adds a weight as long as the sum is below one; `inside` are the blocks of a branch in the loop, or none.
AtenProgram LoopBlock(const std::vector<AtenProgram>& inside) {
  ProgramWriter body;
  int x = body.Input({4});
  const int weight = body.Input({4});
  x = body.Call("aten.add.Tensor", {{"self", T(x)}, {"other", T(weight)}}, {4});
  const int sum = body.Call("aten.sum.default", {{"self", T(x)}}, {});
  const int more = body.Call("aten.lt.Scalar", {{"self", T(sum)}, {"other", 1.0}}, {}, ir::DType::kBool);
  if (!inside.empty()) x = body.Control(capture::kIfOp, more, Operands{ValueRef{x}}, inside, {4});
  body.Output(more);
  body.Output(x);
  return body.program;
}

AtenProgram Branching(const std::vector<AtenProgram>& blocks) {
  ProgramWriter w;
  const int condition = w.Input({}, ir::DType::kBool), x = w.Input({4});
  w.Output(w.Control(capture::kIfOp, condition, Operands{ValueRef{x}}, blocks, {4}));
  return w.program;
}

AtenProgram Looping(const AtenProgram& body) {
  ProgramWriter w;
  const int condition = w.Input({}, ir::DType::kBool), x = w.Input({4}), weight = w.Input({4});
  w.Output(w.Control(capture::kWhileOp, condition, Operands{ValueRef{x}, ValueRef{weight}}, {body}, {4}));
  return w.program;
}

std::vector<v1::Program> ControlPrograms() {
  const AtenProgram negated = Block("aten.neg.default"), in_place = Block("aten.relu_.default");
  std::vector<v1::Program> programs;
  for (const AtenProgram& program : {Branching({negated, Block("aten.abs.default")}), Branching({negated, in_place}),
                                     Looping(LoopBlock({})), Looping(LoopBlock({negated, Block("aten.exp.default")}))})
    programs.push_back(capture::ToProto(program));
  return programs;
}

void WriteBuckets(Folder& folder) {
  folder.Add("version: 1\nmodels:\n  - source: a.pt2\n    buckets: [{batch: [1, 8], seq: 128}]\n");
  folder.Add(
      "version: 1\ndefaults: {target: cpu, mode: tuned, freeze: true}\nmodels:\n  - name: bert\n    source: m/b.pt2\n"
      "    buckets:\n      - {batch: 1, seq: [64, 128, 256]}\n      - {batch: [8, 32], seq: 128}\n  - source: &s "
      "x.preheat\n");
  folder.Add("a: &a [1, 1]\nb: [*a, *a]\n<<: {version: 1}\n");
}

// An archive of torch.jit.save with one weight, which is cut.
void WriteScriptFile(Folder& folder) {
  int error = 0;
  zip_t* zip = zip_open(folder.Next().c_str(), ZIP_CREATE, &error);
  if (zip == nullptr) return;
  static const std::string kWeight(64, 'w'), kText = "class M(Module):\n  pass\n";
  for (const auto& [name, text] :
       {std::pair{"m/code/__torch__.py", &kText}, {"m/data/0", &kWeight}, {"m/data.pkl", &kText}})
    zip_file_add(zip, name, zip_source_buffer(zip, text->data(), text->size(), 0), ZIP_FL_ENC_UTF_8);
  zip_close(zip);
}

// Input texts, then code: straight lines, containers, a loop over constants, branches, mutation, and what is refused.
void WriteScripts(Folder& folder) {
  const std::string head =
      "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n  def forward(self: "
      "__torch__.M,\n"
      "    x: Tensor) -> Tensor:\n";
  for (const char* body :
       {"    return torch.add(x, 1)\n", "    y = torch.cat([x, torch.neg(x)], 1)\n    return torch.softmax(y, -1)\n",
        "    y = x\n    for i in range(3):\n      y = torch.mul(y, i)\n    return y\n",
        "    if self.training:\n      y = torch.relu_(torch.clone(x))\n    else:\n      y = x\n    return y\n",
        "    a, b, = torch.split(x, [1, 2], 1)\n    return torch.slice(torch.matmul(x, torch.t(x)), 0, 0, "
        "torch.size(a, 0))\n",
        "    if bool(torch.gt(torch.sum(x), 0)):\n      y = x\n    else:\n      y = torch.neg(x)\n    return y\n",
        "    y = x\n    _0 = bool(torch.lt(torch.sum(y), 9))\n    while _0:\n      z = torch.add(y, 1)\n"
        "      _1 = bool(torch.lt(torch.sum(z), 9))\n      _0, y = _1, z\n    return y\n",
        "    y = [torch.size(x, 0), torch.len(torch.size(x))]\n    return torch.expand(torch.select(x, 0, 0), y)\n"})
    folder.Add("x=f32[batch,3]\n" + head + body);
  folder.Add("x=i64[2,n];y=bool[]\n" + head + "    return x\n");
}

int Main(const fs::path& root, const fs::path& rejects) {
  Folder program(root / "program"), message(root / "message"), archive(root / "archive"), plan(root / "plan"),
      buckets(root / "buckets");
  Folder script_file(root / "torch_script_file"), script(root / "torch_script");
  WriteScriptFile(script_file);
  WriteScripts(script);
  std::vector<v1::Program> programs = ControlPrograms();
  for (uint32_t i = 0; i < 10; ++i) programs.push_back(load::MakeProgram(0, i));
  for (size_t i = 0; i < programs.size(); ++i) {
    const v1::Program& made = programs[i];
    program.Add(made.SerializeAsString());
    v1::CompileRequest request;
    *request.mutable_source()->mutable_program() = made;
    request.set_name("seed");
    (*request.mutable_dims())["batch"] = static_cast<int64_t>(i);
    message.Add(request.SerializeAsString());
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(rejects)) {
    if (entry.path().extension() != ".reject") continue;
    const std::string text = Read(entry.path());
    const size_t body = text.find('\n', text.find('\n') + 1) + 1;
    v1::Program parsed;
    if (text.rfind("export", 0) == 0) {
      archive.Add(text.substr(body));
      AddZip(archive, text.substr(body));
    } else if (google::protobuf::TextFormat::ParseFromString(text.substr(body), &parsed)) {
      program.Add(parsed.SerializeAsString());
    }
  }
  plan.Add(SmallPlan());
  plan.Add(BranchingPlan());
  plan.Add(LoopPlan());
  WriteBuckets(buckets);
  return 0;
}

}  // namespace
}  // namespace preheat

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "write_seeds FOLDER REJECTS\n");
    return 2;
  }
  return preheat::Main(argv[1], argv[2]);
}
