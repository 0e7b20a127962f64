#include "server/rpc/parse_message.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/escaping.h"
#include "compiler/support/error.h"
#include "proto/preheat/v1/compile.pb.h"

namespace preheat::server {
namespace {

constexpr int64_t kBudget = 1 << 20;

grpc::ByteBuffer Buffer(const std::string& bytes) {
  // In pieces, as the network delivers them.
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += 7) slices.emplace_back(bytes.substr(at, 7));
  return {slices.data(), slices.size()};
}

std::string Kind(const std::string& bytes, int64_t budget = kBudget) {
  v1::CompileRequest request;
  absl::Status status = ParseMessage(Buffer(bytes), budget, &request);
  return status.ok() ? "" : GetError(status).kind;
}

// Bytes of `count` length-delimited fields of that number in messages nested as `path` says.
std::string Nest(std::initializer_list<int> path, std::string bytes) {
  for (auto field = std::rbegin(path); field != std::rend(path); ++field) {
    std::string outer(1, static_cast<char>(*field << 3 | 2));
    for (size_t size = bytes.size(); true; size >>= 7) {
      outer += static_cast<char>((size & 127) | (size > 127 ? 128 : 0));
      if (size <= 127) break;
    }
    bytes = outer + bytes;
  }
  return bytes;
}

TEST(ParseMessage, TakesWhatProtobufTakes) {
  v1::CompileRequest request;
  request.set_name("n");
  request.mutable_source()->mutable_program()->add_nodes()->add_results(-1);
  (*request.mutable_dims())["batch"] = 8;
  v1::CompileRequest parsed;
  ASSERT_TRUE(ParseMessage(Buffer(request.SerializeAsString()), kBudget, &parsed).ok());
  EXPECT_EQ(parsed.SerializeAsString(), request.SerializeAsString());
  EXPECT_EQ(Kind(""), "");
}

TEST(ParseMessage, RefusesAmplification) {
  constexpr int kSource = 1, kProgram = 1, kNodes = 8, kExclude = 5, kResults = 3;
  std::string empty_nodes, empty_strings, unknown, names_as_numbers;
  for (int i = 0; i < 50000; ++i) {
    empty_nodes += Nest({kNodes}, "");
    empty_strings += Nest({kExclude}, "");
    unknown += std::string("\xf8\x06\x00", 3);
    names_as_numbers += "E1234";  // name_space, a string, as four bytes of a number: kept as unknown
  }
  EXPECT_EQ(Kind(Nest({kSource, kProgram}, empty_nodes)), "message_too_complex");
  EXPECT_EQ(Kind(empty_strings), "message_too_complex");
  EXPECT_EQ(Kind(unknown), "message_too_complex");
  EXPECT_EQ(Kind(names_as_numbers), "message_too_complex");
  EXPECT_EQ(Kind(Nest({kSource, kProgram, kNodes, kResults}, std::string(200000, '\x01'))), "message_too_complex");
  EXPECT_EQ(Kind(Nest({kSource, kProgram, kNodes, kResults}, std::string(2000, '\x01'))), "");
}

TEST(ParseMessage, WhatItLetsThroughStaysUnderItsBudget) {
  v1::CompileRequest request;
  v1::Program& program = *request.mutable_source()->mutable_program();
  for (int i = 0; i < 20000; ++i) {
    v1::Node& node = *program.add_nodes();
    node.set_op("aten.add.Tensor");
    node.add_results(i);
    node.add_arguments()->set_name("self");
  }
  const auto used = static_cast<int64_t>(request.SpaceUsedLong());
  const std::string bytes = request.SerializeAsString();
  EXPECT_EQ(Kind(bytes, used / 2), "message_too_complex");
  EXPECT_EQ(Kind(bytes, 2 * used), "") << "an honest program is not counted for much more than it is";
}

TEST(ParseMessage, RefusesWhatIsNoMessage) {
  const std::string deep = std::string(3000, '\x0b') + std::string(3000, '\x0c');  // groups in groups
  for (const std::string& bytes : {std::string("\xff\xff"), std::string("\x0a\x7f"), std::string("\x0b"), deep,
                                   std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), std::string(11, '\x80')}) {
    EXPECT_EQ(Kind(bytes), "malformed_message")
        << absl::CHexEscape(bytes.substr(0, 12)) << ", " << bytes.size() << " bytes";
  }
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 64, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    v1::CompileRequest reference;
    if (!Kind(bytes).empty()) continue;
    EXPECT_TRUE(reference.ParseFromString(bytes));
  }
}

}  // namespace
}  // namespace preheat::server
