#ifndef PREHEAT_SERVER_REFLECTED_SERVICES_H_
#define PREHEAT_SERVER_REFLECTED_SERVICES_H_

#include "proto/preheat/v1/compile.grpc.pb.h"
#include "proto/preheat/v1/pool.grpc.pb.h"

namespace preheat::server {

// Services as reflection shows them. Every method is marked generic: its calls go to the router.
using ReflectedCompiler = v1::Compiler::WithGenericMethod_Compile<v1::Compiler::WithGenericMethod_Lookup<
    v1::Compiler::WithGenericMethod_Explain<v1::Compiler::WithGenericMethod_Verify<
        v1::Compiler::WithGenericMethod_WhyMiss<v1::Compiler::WithGenericMethod_Stats<
            v1::Compiler::WithGenericMethod_ReportLocalHits<v1::Compiler::Service>>>>>>>;

using ReflectedPool = v1::Pool::WithGenericMethod_Work<
    v1::Pool::WithGenericMethod_LookupKernels<v1::Pool::WithGenericMethod_PublishKernels<
        v1::Pool::WithGenericMethod_LookupTuning<v1::Pool::WithGenericMethod_ListWorkers<v1::Pool::Service>>>>>;

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_REFLECTED_SERVICES_H_
