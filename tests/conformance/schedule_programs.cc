#include "tests/conformance/schedule_programs.h"

#include <set>
#include <utility>

#include "absl/strings/str_replace.h"
#include "compiler/codegen/target.h"
#include "compiler/draft.h"
#include "compiler/ir/parse.h"

namespace preheat::testing {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

constexpr char kSoftmax[] = R"(
%x = input user DTYPE[ROWS, SIZE] align BYTES
%f = cast(%x) {dtype = f32}
%s = reduce_max(%f) {dims = [1]}
%r = reshape(%s) {shape = (ROWS, 1)}
%b = broadcast(%r) {shape = (ROWS, SIZE)}
%d = sub(%f, %b)
%e = exp(%d)
%t = reduce_sum(%e) {dims = [1]}
%tr = reshape(%t) {shape = (ROWS, 1)}
%tb = broadcast(%tr) {shape = (ROWS, SIZE)}
%q = div(%e, %tb)
%y = cast(%q) {dtype = DTYPE}
%m = argmax(%f) {dim = 1}
output %y
output %m)";

constexpr char kColumns[] = R"(
%x = input user DTYPE[ROWS, SIZE] align BYTES
%f = cast(%x) {dtype = f32}
%g = tanh(%f)
%c = cast(%g) {dtype = DTYPE}
%s = reduce_sum(%g) {dims = [0]}
%m = argmin(%f) {dim = 0}
output %c
output %s
output %m)";

constexpr char kFlat[] = R"(
%x = input user DTYPE[ROWS, SIZE] align BYTES
%b = input user DTYPE[SIZE] align BYTES
%r = reshape(%b) {shape = (1, SIZE)}
%w = broadcast(%r) {shape = (ROWS, SIZE)}
%s = add(%x, %w)
%t = tanh(%s)
output %t)";

constexpr char kPieces[] = R"(
%x = input user DTYPE[ROWS, SIZE] align BYTES
%y = input user DTYPE[ROWS, 24] align BYTES
%n = neg(%x)
%r = concat(%n, %y) {dim = 1}
output %r)";

constexpr char kTransposed[] = R"(
%x = input user DTYPE[2, ROWS, SIZE] align BYTES
%y = input user DTYPE[2, SIZE, ROWS] align BYTES
%t = permute(%x) {dims = [0, 2, 1]}
%z = add(%t, %y)
output %z)";

ScheduleProgram Program(const std::string& text, const std::string& dtype, const std::string& rows,
                        const std::string& size) {
  return {absl::StrReplaceAll(
              text, Fields{{"DTYPE", dtype}, {"ROWS", rows}, {"SIZE", size}, {"BYTES", dtype == "f32" ? "4" : "2"}}),
          {}};
}

// Of which one size is known when it runs only.
ScheduleProgram Sized(const std::string& text, const std::string& dtype, const std::string& rows,
                      const std::string& size, int64_t n) {
  ScheduleProgram program = Program("symbol n in [0, 4096]\n" + text, dtype, rows, size);
  program.symbols = {{"n", n}};
  return program;
}

std::string SourceOf(const std::string& program, const std::string& target, const codegen::Schedule& schedule) {
  Canonical canonical;
  canonical.graph = *ir::ParseGraph(program);
  CompileOptions options;
  options.target = target;
  options.schedules.everywhere = schedule;
  auto draft = MakeDraft(canonical, options);
  return draft.ok() ? draft->artifact.source : std::string(draft.status().message());
}

}  // namespace

std::vector<ScheduleProgram> SchedulePrograms() {
  return {
      Program(kSoftmax, "bf16", "530", "32"),  Program(kSoftmax, "bf16", "530", "40"),
      Program(kSoftmax, "f32", "530", "133"),  Program(kSoftmax, "bf16", "528", "1024"),
      Program(kSoftmax, "bf16", "3", "8200"),  Program(kSoftmax, "f16", "0", "512"),
      Program(kSoftmax, "f32", "5", "4099"),   Program(kSoftmax, "f32", "2", "65536"),
      Sized(kSoftmax, "bf16", "n", "512", 7),  Sized(kSoftmax, "f32", "6", "n", 333),
      Program(kColumns, "bf16", "300", "264"), Program(kColumns, "bf16", "260", "384"),
      Program(kColumns, "f32", "300", "33"),   Program(kColumns, "f32", "70", "1024"),
      Program(kColumns, "f32", "4", "1000"),   Program(kColumns, "f32", "7", "0"),
      Sized(kColumns, "bf16", "n", "72", 100), Sized(kColumns, "f32", "150", "n", 60),
      Program(kFlat, "bf16", "300", "1000"),   Program(kFlat, "f32", "700", "257"),
      Program(kFlat, "f32", "0", "64"),        Sized(kFlat, "f16", "n", "136", 501),
      Sized(kFlat, "f32", "3", "n", 4000),     Program(kPieces, "bf16", "1100", "520"),
      Sized(kPieces, "f32", "9", "n", 41),     Program(kTransposed, "bf16", "136", "72"),
      Program(kTransposed, "f32", "67", "33"), Sized(kTransposed, "bf16", "n", "64", 90),
  };
}

std::vector<codegen::Schedule> DifferentSchedules(const std::string& program, const std::string& target) {
  std::vector<codegen::Schedule> schedules = {{}};
  std::set<std::string> sources = {SourceOf(program, target, {})};
  const DeviceKind device = DeviceKindOf(target);
  std::vector<codegen::Schedule> all;
  for (const codegen::Knob& knob : codegen::Knobs()) {
    if (knob.device != device) continue;
    for (const std::string& value : knob.values) all.push_back({{knob.name, value}});
  }
  // Several at once, as a record may have them.
  if (device == DeviceKind::kCuda) {
    all.push_back({{"row_threads", "64"}, {"threads", "512"}, {"held", "0"}, {"steps", "2"}});
    all.push_back({{"columns", "16"}, {"threads", "1024"}, {"steps", "8"}, {"vector", "4"}});
    all.push_back({{"waves", "1"}, {"threads", "128"}, {"steps", "2"}, {"block", "32"}});
  }
  for (const codegen::Schedule& schedule : all) {
    if (sources.insert(SourceOf(program, target, schedule)).second) schedules.push_back(schedule);
  }
  return schedules;
}

}  // namespace preheat::testing
