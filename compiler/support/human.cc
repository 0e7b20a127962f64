#include "compiler/support/human.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace preheat {
namespace {

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Bytes of the UTF-8 sequence at the front of `text`; 0 if it is none, is too long for its value, or names a surrogate.
size_t SequenceLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xC2 ? 0 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (length == 0 || byte(0) > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!Continues(text[i])) return 0;
  }
  if (length == 2 && byte(0) == 0xC2 && byte(1) < 0xA0) return 0;  // control characters of Latin-1
  if (byte(0) == 0xE0 && byte(1) < 0xA0) return 0;
  if (byte(0) == 0xED && byte(1) >= 0xA0) return 0;
  if (byte(0) == 0xF0 && byte(1) < 0x90) return 0;
  if (byte(0) == 0xF4 && byte(1) >= 0x90) return 0;
  return length;
}

}  // namespace

std::string HumanBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  return unit == 0 ? absl::StrFormat("%d B", bytes) : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string HumanSeconds(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  const auto whole = static_cast<int64_t>(std::min(seconds, 1e15));
  if (whole >= 48 * 3600) return absl::StrFormat("%d d %02d h", whole / 86400, whole % 86400 / 3600);
  if (whole >= 3600) return absl::StrFormat("%d h %02d min", whole / 3600, whole % 3600 / 60);
  if (seconds >= 0.9995) return absl::StrFormat("%.1f s", seconds);
  return absl::StrFormat("%.3g ms", seconds * 1e3);
}

std::string HumanAge(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds < 1) return "now";
  if (seconds < 60) return absl::StrFormat("%.0f s", std::floor(seconds));
  if (seconds < 3600) return absl::StrFormat("%.0f min", std::floor(seconds / 60));
  if (seconds < 48 * 3600) return absl::StrFormat("%.0f h", std::floor(seconds / 3600));
  return absl::StrFormat("%.0f d", std::floor(seconds / 86400));
}

std::string HumanNumber(double value) { return std::isfinite(value) ? absl::StrFormat("%.4g", value) : "-"; }

std::string Printable(absl::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const bool control = length == 1 && (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7F);
    if (length == 0 || control) {
      clean += '?';
    } else {
      absl::StrAppend(&clean, text.substr(0, length));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return clean;
}

size_t Columns(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !Continues(c); }));
}

std::string Shorten(absl::string_view text, size_t columns) {
  if (Columns(text) <= columns) return std::string(text);
  const absl::string_view end = columns > 3 ? "..." : "";
  size_t bytes = 0;
  for (size_t kept = 0; bytes < text.size(); ++bytes) {
    if (!Continues(text[bytes]) && kept++ == columns - end.size()) break;
  }
  return absl::StrCat(text.substr(0, bytes), end);
}

}  // namespace preheat
