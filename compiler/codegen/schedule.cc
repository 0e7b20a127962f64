#include "compiler/codegen/schedule.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/support/error.h"

namespace preheat::codegen {
namespace {

// A knob that sets numbers of Choices.
struct ChoiceKnob {
  const char* name;
  std::vector<int Choices::*> members;
};
const std::vector<ChoiceKnob>& ChoiceKnobs() {
  static const auto* knobs = new std::vector<ChoiceKnob>{
      {"tile", {&Choices::tile}}, {"flat_tile", {&Choices::flat_tile}}, {"block", {&Choices::line, &Choices::run}},
      {"keep", {&Choices::keep}}, {"copies", {&Choices::copies}},       {"width", {&Choices::width}},
  };
  return *knobs;
}

const std::vector<Knob>& AllKnobs() {
  static const auto* knobs = new std::vector<Knob>{
      // Bits of the vectors that the host compiler prefers, on x86-64-v4; the others have no more than 256.
      {"width", DeviceKind::kCpu, {"256", "512"}},
      // Elements of a tile in a kernel that reduces along the other dimension, and in one that does not reduce.
      {"tile", DeviceKind::kCpu, {"64", "128", "256", "512"}},
      {"flat_tile", DeviceKind::kCpu, {"1024", "16384"}},
      // Elements of a side of the block in which something is transposed.
      {"block", DeviceKind::kCpu, {"32", "64"}},
      // Parts of a long fold that run side by side.
      {"copies", DeviceKind::kCpu, {"1", "2", "4", "8"}},
      // 0: costly values of a row are computed again in each stage rather than kept.
      {"keep", DeviceKind::kCpu, {"0"}},
      // Nanoseconds of estimated work worth a thread.
      {"thread_ns", DeviceKind::kCpu, {"1000", "10000"}},
      // Who runs a library call.
      {"provider", DeviceKind::kCpu, {"loops", "onednn"}},
      // Which of the library's own proposals a library call takes, counted from 0.
      {"algorithm", DeviceKind::kCuda, {"1", "2", "3", "4", "5", "6", "7"}},
      // Kernels of a GPU; an emitter passes over what its kernel cannot have, and what is far from its own choice.
      // Threads that share a row; those that share the rows of a column; those that have columns side by side.
      {"row_threads", DeviceKind::kCuda, {"256", "512", "128", "64", "1024", "32", "16", "8", "4", "2", "1"}},
      {"column_threads", DeviceKind::kCuda, {"1", "8"}},
      {"columns", DeviceKind::kCuda, {"16", "32", "8", "64"}},
      // Registers of a thread for what it keeps of its row, in words; 0: the row is read again by each stage.
      {"held", DeviceKind::kCuda, {"0", "96"}},
      // Threads of a block.
      {"threads", DeviceKind::kCuda, {"512", "128", "1024"}},
      // Elements of a side of the block in which something is transposed.
      {"block", DeviceKind::kCuda, {"32", "128"}},
      // Vectors of each input that a thread has on their way from memory, of rows and columns: steps of its loops.
      {"steps", DeviceKind::kCuda, {"4", "2", "8", "1"}},
      // Blocks that stay and go through all elements, for each that a GPU has room for; without: one after another.
      {"waves", DeviceKind::kCuda, {"1"}},
      // Elements of a vector at most.
      {"vector", DeviceKind::kCuda, {"4", "2"}},
  };
  return *knobs;
}

absl::Status BadSchedule(absl::string_view text, const std::string& why) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "bad_schedule", .message = why, .where = std::string(text), .fix = ""});
}

bool IsNumber(const std::string& text) {
  int64_t value;
  return absl::SimpleAtoi(text, &value) && value >= 0 && value <= (int64_t{1} << 30);
}

}  // namespace

std::string ScheduleText(const Schedule& schedule) {
  if (schedule.empty()) return "default";
  return absl::StrJoin(schedule, ",", absl::PairFormatter("="));
}

absl::StatusOr<Schedule> ParseSchedule(absl::string_view text) {
  Schedule schedule;
  if (text.empty() || text == "default") return schedule;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    std::pair<std::string, std::string> entry = absl::StrSplit(part, absl::MaxSplits('=', 1));
    auto known =
        std::find_if(AllKnobs().begin(), AllKnobs().end(), [&](const Knob& k) { return k.name == entry.first; });
    if (known == AllKnobs().end()) return BadSchedule(text, absl::StrCat("there is no knob \"", entry.first, "\""));
    const bool named = known->name == "provider";
    if (named ? std::count(known->values.begin(), known->values.end(), entry.second) == 0 : !IsNumber(entry.second)) {
      return BadSchedule(text, absl::StrCat(entry.first, " cannot be \"", entry.second, "\""));
    }
    schedule.insert(std::move(entry));
  }
  return schedule;
}

absl::Span<const Knob> Knobs() { return AllKnobs(); }

std::optional<int64_t> KnobValue(const Schedule& schedule, const std::string& knob) {
  auto found = schedule.find(knob);
  int64_t value;
  if (found == schedule.end() || !absl::SimpleAtoi(found->second, &value)) return std::nullopt;
  return value;
}

std::optional<int64_t> PowerOfTwo(const Schedule& schedule, const std::string& knob, int64_t least, int64_t most) {
  const std::optional<int64_t> value = KnobValue(schedule, knob);
  const bool power = value && *value > 0 && (*value & (*value - 1)) == 0;
  return power && *value >= least && *value <= most ? value : std::nullopt;
}

Choices WithSchedule(Choices choices, const Schedule& schedule) {
  for (const ChoiceKnob& knob : ChoiceKnobs()) {
    if (auto value = KnobValue(schedule, knob.name)) {
      for (int Choices::*member : knob.members) choices.*member = static_cast<int>(*value);
    }
  }
  return choices;
}

const Schedule& Schedules::For(const std::string& site) const {
  auto found = at.find(site);
  return found == at.end() ? everywhere : found->second;
}

}  // namespace preheat::codegen
