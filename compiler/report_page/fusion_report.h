#ifndef PREHEAT_COMPILER_REPORT_PAGE_FUSION_REPORT_H_
#define PREHEAT_COMPILER_REPORT_PAGE_FUSION_REPORT_H_

#include <string>

#include "proto/preheat/v1/artifact.pb.h"

namespace preheat {

// What became of a program, as markup for a page: numbers, kernels with their share of the memory traffic, calls that
// others answer, and where the time of compiling went. For `compilectl explain --html` and the server's pages.
std::string FusionReportHtml(const v1::FusionReport& report, const v1::StageSeconds& seconds);

}  // namespace preheat

#endif  // PREHEAT_COMPILER_REPORT_PAGE_FUSION_REPORT_H_
