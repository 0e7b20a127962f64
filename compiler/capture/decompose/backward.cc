#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {

OpTable BackwardOps() { return {}; }

}  // namespace preheat::decompose
