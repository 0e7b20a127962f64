#ifndef PREHEAT_CLIENT_TORCH_RUN_STEP_H_
#define PREHEAT_CLIENT_TORCH_RUN_STEP_H_

#include <ATen/ATen.h>

#include <vector>

#include "client/torch/preheat_torch.h"

namespace preheat {

at::Device DeviceOf(const preheat_torch_step& step);

// Whether a tensor is what an input of a step must be: plain, of its type and layout, aligned.
bool Fits(const at::Tensor& t, const preheat_torch_input& want, const at::Device& device);

// Whether every argument that the step looks at is as it says. Null stands for what is no plain tensor.
bool Fits(const std::vector<const at::Tensor*>& arguments, const preheat_torch_step& step);

// New memory for the outputs, and the run. REQUIRES: Fits(arguments, step), and that the caller does not hold the GIL.
// The status is null, or the caller's to free.
preheat_status* Run(const std::vector<const at::Tensor*>& arguments, const preheat_torch_step& step,
                    std::vector<at::Tensor>& outputs);

// What a thread's last call from Python said; see preheat_torch_take_status.
void SetCallStatus(preheat_status* status);
preheat_status* TakeCallStatus();

}  // namespace preheat

#endif  // PREHEAT_CLIENT_TORCH_RUN_STEP_H_
