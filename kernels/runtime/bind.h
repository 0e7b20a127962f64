#ifndef PREHEAT_KERNELS_RUNTIME_BIND_H_
#define PREHEAT_KERNELS_RUNTIME_BIND_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/runtime/executable.h"
#include "kernels/runtime/preheat_runtime.h"

namespace preheat::runtime {

// Compares what a caller hands in with what a plan takes. Every error names the input or output and what would fit.

// INVALID_ARGUMENT "input_count" unless the numbers agree.
absl::Status CheckCount(size_t given, size_t wanted, absl::string_view what);

// Writes the values of the symbols that `tensors` bind, tensors[i] being input `numbers[i]`. Checks their ranks, so
// that the dimensions can be read, and the symbols' bounds: INVALID_ARGUMENT "shape_mismatch", OUT_OF_RANGE
// "size_out_of_range".
absl::Status BindSymbols(const LoadedPlan& plan, absl::Span<const uint32_t> numbers, const preheat_tensor* tensors,
                         int64_t* symbols);
// The symbols that steps define: their least values, until the steps have run.
void InitSymbols(const LoadedPlan& plan, int64_t* symbols);

// `values`: of the size entries under the symbols' values.
absl::Status CheckGuards(const LoadedPlan& plan, const int64_t* values);
// `device_type`: where the tensor must lie.
absl::Status CheckInput(const LoadedPlan& plan, uint32_t number, const preheat_tensor& tensor, const int64_t* values,
                        int32_t device_type);
absl::Status CheckOutput(const LoadedPlan& plan, uint32_t number, const preheat_tensor& tensor, const int64_t* values,
                         int32_t device_type);

inline int32_t DeviceTypeOf(const Device& device) { return device.is_host() ? PREHEAT_CPU : PREHEAT_CUDA; }

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_BIND_H_
