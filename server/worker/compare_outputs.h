#ifndef PREHEAT_SERVER_WORKER_COMPARE_OUTPUTS_H_
#define PREHEAT_SERVER_WORKER_COMPARE_OUTPUTS_H_

#include <vector>

#include "compiler/reference/inputs/host_tensor.h"
#include "proto/preheat/v1/artifact.pb.h"

namespace preheat::worker {

// Judges results against the float64 reference beside eager's own:
//   rel_error   ‖got − ref‖ / ‖ref‖ over floating outputs (2-norm; where the reference is zero throughout, the norm of
//   got) ok          rel_error at most twice eager's plus what one rounding of the output's type may cost (1e-6 for f32
//   and
//               f64), for each output; integer and boolean outputs equal eager's or the reference's; NaN and infinities
//               only where the reference or eager has the same
// A failure is state FAILED with the first output that is wrong as `reason`.
v1::Evidence CompareOutputs(const std::vector<reference::HostTensor>& got,
                            const std::vector<reference::HostTensor>& eager,
                            const std::vector<reference::HostTensor>& reference);

}  // namespace preheat::worker

#endif  // PREHEAT_SERVER_WORKER_COMPARE_OUTPUTS_H_
