#ifndef PREHEAT_KERNELS_RUNTIME_PLAN_VIEW_H_
#define PREHEAT_KERNELS_RUNTIME_PLAN_VIEW_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "compiler/artifact/plan_generated.h"

namespace preheat::runtime {

// A vector or string that a plan leaves out is an empty one.
template <typename T>
uint32_t Count(const flatbuffers::Vector<T>* v) {
  return v != nullptr ? v->size() : 0;
}
inline const char* Text(const flatbuffers::String* s) { return s != nullptr ? s->c_str() : ""; }

// The plan's constants; null when it has none.
inline const char* ConstantBytes(const plan::Plan& plan) {
  return plan.constants() != nullptr ? reinterpret_cast<const char*>(plan.constants()->data()) : nullptr;
}

inline int64_t ElementSize(plan::DType dtype) {
  constexpr int64_t kSizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return kSizes[static_cast<int>(dtype)];
}
const char* DTypeText(int32_t dtype);  // "f32"; "dtype 99" has no name: "?"

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_PLAN_VIEW_H_
