#ifndef PREHEAT_CLIENT_TORCH_PYTHON_CALL_H_
#define PREHEAT_CLIENT_TORCH_PYTHON_CALL_H_

#include "client/torch/preheat_torch.h"

namespace preheat {

// preheat_torch_call. A front end behind guards spends most of its time on looking at arguments one by one: here that
// is a few comparisons each.
void* CallFromPython(const preheat_torch_step& step, void* arguments);

}  // namespace preheat

#endif  // PREHEAT_CLIENT_TORCH_PYTHON_CALL_H_
