#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/report_page/fusion_report.h"
#include "compiler/report_page/html.h"

namespace preheat {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Html, TextCannotBecomeMarkup) {
  EXPECT_EQ(EscapeHtml("<script>\"'&\x01"), "&lt;script&gt;&quot;&#39;&amp;?");
  EXPECT_THAT(HtmlPage("</title><b>", ""), HasSubstr("<title>&lt;/title&gt;&lt;b&gt;</title>"));
  EXPECT_THAT(HtmlLink("/artifact/0", "a\"><img>"), HasSubstr(">a&quot;&gt;&lt;img&gt;</a>"));
}

TEST(Html, PartsOfNothingAreNothing) {
  EXPECT_EQ(HtmlParts({{"import", "0 ms", 0}}), "");
  EXPECT_THAT(HtmlParts({{"import", "1 s", 1}, {"tune", "0 ms", 0}}), Not(HasSubstr("tune")));
}

TEST(FusionReport, NamesOfAGraphAreEscaped) {
  v1::FusionReport report;
  v1::KernelReport& kernel = *report.add_kernels();
  kernel.set_name("<kernel>");
  kernel.add_ops("<op>");
  kernel.add_ops("<op>");
  v1::ExternCall& call = *report.add_extern_calls();
  call.set_op("<extern>");
  call.set_count(2);
  call.set_reason("<reason>");
  report.add_graph_breaks()->set_file("<file>");
  const std::string html = FusionReportHtml(report, {});
  for (const char* raw : {"<kernel>", "<op>", "<extern>", "<reason>", "<file>"}) EXPECT_THAT(html, Not(HasSubstr(raw)));
  EXPECT_THAT(html, HasSubstr("&lt;op&gt; x 2"));
}

}  // namespace
}  // namespace preheat
