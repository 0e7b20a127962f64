#ifndef PREHEAT_COMPILER_REFERENCE_GPU_ATTENTION_H_
#define PREHEAT_COMPILER_REFERENCE_GPU_ATTENTION_H_

namespace preheat::reference {

// Gives torch's dispatcher what it lacks: kernels for CPUs of the attention operators that only GPUs have
// (_scaled_dot_product_{cudnn,flash,efficient}_attention and their gradients), by products and a softmax. 16-bit floats
// are computed in float32 with their weights rounded, as the kernels of GPUs do. No dropout, no gradient of a mask.
// Once in a process; thread-safe.
void DefineGpuAttention();

}  // namespace preheat::reference

#endif  // PREHEAT_COMPILER_REFERENCE_GPU_ATTENTION_H_
