#ifndef PREHEAT_CLIENT_TORCH_TRAINING_STEP_H_
#define PREHEAT_CLIENT_TORCH_TRAINING_STEP_H_

#include "client/torch/preheat_torch.h"

namespace preheat {

// preheat_torch_train. AOTAutograd's own way from a forward to a backward graph is a function of Python with some
// fifty small steps, which cost more than the kernels of a small graph. Here the backward graph is a node of torch's
// autograd; what it promises is the same: writes to what is saved are noticed, saved_tensors_hooks are called, a graph
// runs backward once unless it is retained, and a second derivative is refused.
void* TrainFromPython(const preheat_torch_training& training, void* arguments);

}  // namespace preheat

#endif  // PREHEAT_CLIENT_TORCH_TRAINING_STEP_H_
