#ifndef PREHEAT_CLIENT_COMPILECTL_EXPLAIN_HTML_H_
#define PREHEAT_CLIENT_COMPILECTL_EXPLAIN_HTML_H_

#include <string>

#include "proto/preheat/v1/compile.pb.h"

namespace preheat::cli {

// The report as a page of its own: no script, nothing fetched, every text escaped.
std::string ExplainHtml(const v1::ExplainReply& reply);

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_EXPLAIN_HTML_H_
