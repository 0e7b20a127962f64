#include "client/compilectl/explain_html.h"

#include "absl/strings/str_cat.h"
#include "compiler/report_page/fusion_report.h"
#include "compiler/report_page/html.h"

namespace preheat::cli {

std::string ExplainHtml(const v1::ExplainReply& reply) {
  return HtmlPage("Preheat: fusion report",
                  absl::StrCat("<header><h1>Fusion report</h1><code>", EscapeHtml(reply.key()), "</code></header>\n",
                               FusionReportHtml(reply.report(), reply.seconds())));
}

}  // namespace preheat::cli
