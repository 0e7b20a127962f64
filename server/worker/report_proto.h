#ifndef PREHEAT_SERVER_WORKER_REPORT_PROTO_H_
#define PREHEAT_SERVER_WORKER_REPORT_PROTO_H_

#include "compiler/compile.h"
#include "proto/preheat/v1/artifact.pb.h"

namespace preheat::worker {

// The compiler's report as `explain` shows it.
v1::FusionReport ToProto(const Report& report);

}  // namespace preheat::worker

#endif  // PREHEAT_SERVER_WORKER_REPORT_PROTO_H_
