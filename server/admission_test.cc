#include "server/admission.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"
#include "compiler/support/retry_after.h"

namespace preheat::server {
namespace {

v1::CompileRequest Request() {
  v1::CompileRequest request;
  request.mutable_source()->set_hlo_module("x");
  return request;
}

TEST(Admission, TakesAPlainRequest) { EXPECT_TRUE(Admission({}).Check(Request()).ok()); }

TEST(Admission, RefusesWhatIsTooLargeOrEmpty) {
  Admission admission({.max_request_bytes = 1000, .max_waiting = 1});
  v1::CompileRequest large = Request();
  large.mutable_source()->set_hlo_module(std::string(2000, 'x'));
  EXPECT_EQ(GetError(admission.Check(large)).kind, "request_too_large");
  EXPECT_EQ(GetError(admission.Check(v1::CompileRequest())).where, "source");
  v1::CompileRequest named = Request();
  named.set_job_id(std::string(300, 'j'));
  EXPECT_EQ(GetError(admission.Check(named)).where, "job_id");
  v1::CompileRequest wide = Request();
  for (int i = 0; i < 65; ++i) (*wide.mutable_dims())[std::to_string(i)] = 1;
  EXPECT_EQ(GetError(admission.Check(wide)).where, "dims");
}

TEST(Admission, CountsThoseThatWait) {
  Admission admission({.max_request_bytes = 1000, .max_waiting = 2});
  auto first = admission.Enter(), second = admission.Enter();
  ASSERT_TRUE(first.ok() && second.ok());
  const absl::Status full = admission.Enter().status();
  EXPECT_EQ(GetError(full).kind, "too_many_waiting");
  EXPECT_TRUE(GetRetryAfter(full).has_value());
  first->reset();
  EXPECT_TRUE(admission.Enter().ok());
}

}  // namespace
}  // namespace preheat::server
