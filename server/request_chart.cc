#include "server/request_chart.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace preheat::server {
namespace {

constexpr double kWidth = 1000, kHeight = 220;
constexpr double kLeft = 40, kRight = 44, kTop = 12, kBottom = 24;  // margins, for the numbers at the axes
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;

// A few minutes that are drawn as one bar.
struct Bin {
  int64_t unix_minute = 0;  // its first
  int64_t hit = 0, coalesced = 0, compiled = 0, bad = 0;

  int64_t total() const { return hit + coalesced + compiled + bad; }
  int64_t asked() const { return hit + coalesced + compiled; }
};

struct Scale {
  int64_t first_minute, minutes_a_bin;
  size_t bins;
  int64_t most;  // requests of the highest bar

  double X(size_t bin) const { return kLeft + kPlotWidth * static_cast<double>(bin) / static_cast<double>(bins); }
  double BarWidth() const { return kPlotWidth / static_cast<double>(bins); }
  double Height(int64_t count) const { return kPlotHeight * static_cast<double>(count) / static_cast<double>(most); }
};

std::string Clock(int64_t unix_minute) {
  return absl::FormatTime("%H:%M", absl::FromUnixSeconds(unix_minute * 60), absl::UTCTimeZone());
}

Scale ScaleFor(const std::vector<History::Minute>& minutes, int64_t now_minute) {
  const bool day = !minutes.empty() && now_minute - minutes.front().unix_minute >= 60;
  const int64_t width = day ? 15 : 1;
  const size_t bins = day ? 96 : 60;
  const int64_t last = now_minute / width * width;
  return {
      .first_minute = last - width * static_cast<int64_t>(bins - 1), .minutes_a_bin = width, .bins = bins, .most = 1};
}

std::vector<Bin> Gather(const std::vector<History::Minute>& minutes, Scale& scale) {
  std::vector<Bin> bins(scale.bins);
  for (size_t i = 0; i < bins.size(); ++i)
    bins[i].unix_minute = scale.first_minute + static_cast<int64_t>(i) * scale.minutes_a_bin;
  for (const History::Minute& minute : minutes) {
    const int64_t at = minute.unix_minute - scale.first_minute;
    if (at < 0 || at / scale.minutes_a_bin >= static_cast<int64_t>(bins.size())) continue;
    Bin& bin = bins[static_cast<size_t>(at / scale.minutes_a_bin)];
    bin.hit += minute.hit;
    bin.coalesced += minute.coalesced;
    bin.compiled += minute.compiled;
    bin.bad += minute.bad;
    scale.most = std::max(scale.most, bin.total());
  }
  return bins;
}

std::string Bars(const std::vector<Bin>& bins, const Scale& scale) {
  std::string svg;
  for (size_t i = 0; i < bins.size(); ++i) {
    const Bin& bin = bins[i];
    if (bin.total() == 0) continue;
    double y = kTop + kPlotHeight;
    absl::StrAppend(&svg, "<g><title>", Clock(bin.unix_minute), " UTC: ", bin.hit, " hit, ", bin.coalesced,
                    " coalesced, ", bin.compiled, " compiled, ", bin.bad, " failed or refused</title>");
    const auto piece = [&](int64_t count, const char* color) {
      if (count == 0) return;
      y -= scale.Height(count);
      absl::StrAppend(&svg,
                      absl::StrFormat("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"var(--%s)\"/>",
                                      scale.X(i) + 0.5, y, scale.BarWidth() - 1, scale.Height(count), color));
    };
    piece(bin.hit, "hit");
    piece(bin.coalesced, "coalesced");
    piece(bin.compiled, "compiled");
    piece(bin.bad, "bad");
    svg += "</g>\n";
  }
  return svg;
}

// The share of hits among what was asked and answered, of bins that were asked anything.
std::string HitRateLine(const std::vector<Bin>& bins, const Scale& scale) {
  std::string points, dots;
  for (size_t i = 0; i < bins.size(); ++i) {
    if (bins[i].asked() == 0) continue;
    const double rate = static_cast<double>(bins[i].hit) / static_cast<double>(bins[i].asked());
    const double x = scale.X(i) + scale.BarWidth() / 2, y = kTop + kPlotHeight * (1 - rate);
    absl::StrAppend(&points, absl::StrFormat("%.1f,%.1f ", x, y));
    absl::StrAppend(&dots,
                    absl::StrFormat("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"var(--ink)\"><title>%s UTC: "
                                    "hit rate %.1f %%</title></circle>",
                                    x, y, Clock(bins[i].unix_minute), 100 * rate));
  }
  return absl::StrCat("<polyline points=\"", points, "\" fill=\"none\" stroke=\"var(--ink)\" stroke-width=\"1.5\"/>",
                      dots, "\n");
}

std::string Axes(const Scale& scale) {
  std::string svg;
  for (int quarter = 0; quarter <= 4; ++quarter) {
    const double y = kTop + kPlotHeight * (1 - quarter / 4.0);
    absl::StrAppend(
        &svg, absl::StrFormat("<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"var(--line)\"/>", kLeft,
                              kWidth - kRight, y, y));
    absl::StrAppend(
        &svg, absl::StrFormat("<text x=\"%.0f\" y=\"%.1f\">%d %%</text>", kWidth - kRight + 6, y + 4, 25 * quarter));
  }
  absl::StrAppend(&svg, absl::StrFormat("<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%d</text>", kLeft - 6,
                                        kTop + 4.0, scale.most));
  for (size_t i = 0; i < scale.bins; i += scale.bins / 6) {
    const int64_t minute = scale.first_minute + static_cast<int64_t>(i) * scale.minutes_a_bin;
    absl::StrAppend(&svg,
                    absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\">%s</text>", scale.X(i), kHeight - 7, Clock(minute)));
  }
  return svg + "\n";
}

}  // namespace

std::string RequestChart(const std::vector<History::Minute>& minutes, int64_t now_unix_ms) {
  Scale scale = ScaleFor(minutes, now_unix_ms / 60000);
  const std::vector<Bin> bins = Gather(minutes, scale);
  return absl::StrCat("<div class=\"card\"><svg viewBox=\"0 0 ", kWidth, " ", kHeight,
                      "\" role=\"img\" aria-label=\"requests over time\">\n", Axes(scale), Bars(bins, scale),
                      HitRateLine(bins, scale), "</svg>\n<div class=\"legend\">",
                      "<span><i style=\"background:var(--hit)\"></i>hit</span><span><i "
                      "style=\"background:var(--coalesced)\"></i>coalesced</span>",
                      "<span><i style=\"background:var(--compiled)\"></i>compiled</span><span><i "
                      "style=\"background:var(--bad)\"></i>failed or ",
                      "refused</span><span><i style=\"background:var(--ink)\"></i>hit rate</span><span>",
                      scale.minutes_a_bin == 1 ? "the last hour, by minutes" : "the last day, by quarters of an hour",
                      ", UTC</span></div></div>\n");
}

}  // namespace preheat::server
