#ifndef PREHEAT_CLIENT_CPP_ENVIRONMENT_H_
#define PREHEAT_CLIENT_CPP_ENVIRONMENT_H_

#include "proto/preheat/v1/compile.pb.h"

namespace preheat {

// What this process is: plan versions and ABI of its runtime, its CPU, threads and C library. The server refuses
// what could not run here ("incompatible_client").
v1::ClientEnvironment HostEnvironment();

}  // namespace preheat

#endif  // PREHEAT_CLIENT_CPP_ENVIRONMENT_H_
