#include "cache/key.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "compiler/support/digest.h"
#include "proto/source_digest.h"

namespace preheat::cache {
namespace {

KeyInputs Example() {
  KeyInputs inputs;
  inputs.ir_text = "graph(d0) { %0 = input f32[d0, 8] }";
  inputs.target = "cpu:x86-64-v3";
  inputs.toolchain.set_compiler_epoch(1);
  inputs.toolchain.set_host_compiler("g++ 12.2.0");
  inputs.toolchain.set_plan_version(1);
  inputs.exclude = {"aten.gelu", "aten.relu"};
  return inputs;
}

TEST(Key, IsADigestThatStays) {
  Key key = BuildKey(Example());
  EXPECT_TRUE(IsDigest(key.digest));
  EXPECT_EQ(key.digest, BuildKey(Example()).digest);
  // Stored entries are found by it: a change of this value loses every cache out there.
  EXPECT_EQ(key.digest, "1428f26e5cc1555c470d2f1d28767a81fb1b0eb233c8e8cba0e8b1d4948b2974");
}

TEST(Key, ChangesWithEachField) {
  std::vector<std::function<void(KeyInputs&)>> edits = {
      [](KeyInputs& k) { k.ir_text += " "; },
      [](KeyInputs& k) { k.target = "cpu:x86-64-v4"; },
      [](KeyInputs& k) { k.toolchain.set_compiler_epoch(2); },
      [](KeyInputs& k) { k.toolchain.set_host_compiler("g++ 13.1.0"); },
      [](KeyInputs& k) { k.toolchain.set_plan_version(2); },
      [](KeyInputs& k) { k.freeze = true; },
      [](KeyInputs& k) { k.exclude.insert("aten.silu"); },
      [](KeyInputs& k) { k.exclude = {"aten.gelu,9:aten.relu"}; },
      [](KeyInputs& k) { k.exclude.clear(); },
  };
  std::set<std::string> seen = {BuildKey(Example()).digest};
  for (const auto& edit : edits) {
    KeyInputs inputs = Example();
    edit(inputs);
    EXPECT_TRUE(seen.insert(BuildKey(inputs).digest).second);
  }
}

TEST(Key, LeavesOutTheCompilerThatHasNoPartInIt) {
  KeyInputs inputs = Example();
  std::string cpu = BuildKey(inputs).digest;
  inputs.toolchain.set_device_compiler("nvrtc 13.0");
  EXPECT_EQ(BuildKey(inputs).digest, cpu);
  inputs.target = "cuda:sm_90";
  std::string cuda = BuildKey(inputs).digest;
  inputs.toolchain.set_host_compiler("g++ 13.1.0");
  EXPECT_EQ(BuildKey(inputs).digest, cuda);
  inputs.toolchain.set_device_compiler("nvrtc 13.1");
  EXPECT_NE(BuildKey(inputs).digest, cuda);
}

TEST(Key, ShowsLongFieldsByDigest) {
  KeyInputs inputs = Example();
  inputs.ir_text = std::string(10000, 'x');
  EXPECT_EQ(BuildKey(inputs).fields.at("ir"), "sha256:" + Digest(inputs.ir_text));
  EXPECT_EQ(BuildKey(inputs).fields.at("target"), "cpu:x86-64-v3");
}

// Values made of the very characters that the encoding uses.
std::string HostileText(std::mt19937& random) {
  static constexpr char kAlphabet[] = "ir:4:target:\n0123\0,";
  std::string text;
  for (size_t n = random() % 12; text.size() < n;) text += kAlphabet[random() % (sizeof(kAlphabet) - 1)];
  return text;
}

KeyInputs RandomInputs(std::mt19937& random) {
  KeyInputs inputs;
  inputs.ir_text = HostileText(random);
  inputs.target = HostileText(random);
  inputs.toolchain.set_compiler_epoch(random() % 3);
  inputs.toolchain.set_plan_version(random() % 3);
  inputs.toolchain.set_host_compiler(HostileText(random));
  inputs.freeze = random() % 2;
  for (size_t n = random() % 3; n > 0; --n) inputs.exclude.insert(HostileText(random));
  return inputs;
}

bool Same(const KeyInputs& a, const KeyInputs& b) {
  return a.ir_text == b.ir_text && a.target == b.target && a.freeze == b.freeze && a.exclude == b.exclude &&
         a.toolchain.SerializeAsString() == b.toolchain.SerializeAsString();
}

TEST(Key, FuzzedInputsCollideOnlyWhenEqual) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::map<std::string, KeyInputs> seen;
  for (int i = 0; i < 20000; ++i) {
    KeyInputs inputs = RandomInputs(random);
    auto [it, fresh] = seen.emplace(BuildKey(inputs).digest, inputs);
    ASSERT_TRUE(fresh || Same(it->second, inputs)) << inputs.ir_text << " | " << inputs.target;
  }
}

v1::CompileRequest ExampleRequest() {
  v1::CompileRequest request;
  v1::Program* program = request.mutable_source()->mutable_program();
  program->set_format(1);
  v1::Node* node = program->add_nodes();
  node->set_op("aten.relu.default");
  node->set_debug_id(7);
  program->mutable_debug_info()->add_value_names("x");
  for (const char* dim : {"batch", "seq", "heads"}) (*request.mutable_dims())[dim] = 8;
  request.add_exclude("aten.gelu");
  request.add_exclude("aten.relu");
  return request;
}

std::string AliasOf(v1::CompileRequest request) { return BuildAlias(request, "cpu:x86-64-v3", v1::Toolchain()); }

TEST(Alias, IgnoresWhatIsNotCompiled) {
  v1::CompileRequest request = ExampleRequest();
  request.mutable_source()->mutable_program()->clear_debug_info();
  request.mutable_source()->mutable_program()->mutable_nodes(0)->set_debug_id(9);
  std::swap(*request.mutable_exclude(0), *request.mutable_exclude(1));
  request.set_mode(v1::TUNED);
  request.set_job_id("job");
  request.set_name("a name");
  request.set_inline_blobs(true);
  request.set_extern_allowed(true);
  request.mutable_environment()->set_torch("2.11.0");
  EXPECT_EQ(AliasOf(request), AliasOf(ExampleRequest()));
}

TEST(Alias, IsTheSameBySourceAndByDigest) {
  v1::CompileRequest request = ExampleRequest();
  v1::CompileRequest by_digest = request;
  by_digest.clear_source();
  by_digest.set_source_digest(SourceDigest(*request.mutable_source()));
  EXPECT_EQ(AliasOf(by_digest), AliasOf(request));
  request.set_source_digest(std::string(64, '0'));
  EXPECT_EQ(AliasOf(request), AliasOf(ExampleRequest())) << "nobody names another's program by a digest of his choice";
}

TEST(Alias, ChangesWithWhatIsCompiled) {
  std::vector<std::function<void(v1::CompileRequest&)>> edits = {
      [](v1::CompileRequest& r) {
        r.mutable_source()->mutable_program()->mutable_nodes(0)->set_op("aten.silu.default");
      },
      [](v1::CompileRequest& r) { r.mutable_source()->mutable_exported_model()->set_model_json("{}"); },
      [](v1::CompileRequest& r) { (*r.mutable_dims())["seq"] = 9; },
      [](v1::CompileRequest& r) { r.clear_exclude(); },
      [](v1::CompileRequest& r) { r.set_freeze(true); },
  };
  std::set<std::string> seen = {AliasOf(ExampleRequest())};
  for (const auto& edit : edits) {
    v1::CompileRequest request = ExampleRequest();
    edit(request);
    EXPECT_TRUE(seen.insert(AliasOf(request)).second);
  }
  v1::CompileRequest again = ExampleRequest();
  EXPECT_TRUE(seen.insert(BuildAlias(again, "cpu:x86-64-v4", v1::Toolchain())).second);
  v1::Toolchain newer;
  newer.set_compiler_epoch(2);
  EXPECT_TRUE(seen.insert(BuildAlias(again, "cpu:x86-64-v3", newer)).second);
  EXPECT_EQ(again.source().SerializeAsString(), ExampleRequest().source().SerializeAsString())
      << "debug information is back";
}

}  // namespace
}  // namespace preheat::cache
