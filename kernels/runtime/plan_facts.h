#ifndef PREHEAT_KERNELS_RUNTIME_PLAN_FACTS_H_
#define PREHEAT_KERNELS_RUNTIME_PLAN_FACTS_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/runtime/plan_view.h"
#include "kernels/runtime/size_table.h"

namespace preheat::runtime {

// DATA_LOSS "corrupt_artifact".
absl::Status Corrupt(absl::string_view message);

// A list without holes (FlatBuffers allows vectors of tables to be absent, not their elements, which the verifier
// checks).
using Entries = flatbuffers::Vector<uint32_t>;

// One plan, without its subplans, that is being checked: what has been found out of it so far, and the checks of single
// references into its lists.
struct PlanFacts {
  explicit PlanFacts(const plan::Plan& checked) : plan(checked) {}

  const plan::Plan& plan;
  std::vector<Known> known;           // of its size entries
  std::vector<bool> frozen, mutated;  // one an input
  bool frozen_inputs = false;         // some
  std::set<uint32_t> defined;         // symbols, by steps

  bool ForGpu() const;
  const plan::Buffer& BufferAt(uint32_t index) const { return *plan.buffers()->Get(index); }

  absl::Status Entry(uint32_t entry, absl::string_view what) const;
  absl::Status EachEntry(const Entries* entries, absl::string_view what) const;
  absl::Status Index(uint64_t index, uint64_t count, absl::string_view what) const;
  absl::Status Shape(const Entries* sizes, const Entries* strides, absl::string_view what) const;
  // No entry waits for a step.
  absl::Status AtStart(const Entries* entries, absl::string_view what) const;
};

// Whether elements of eight bytes may be read in place: the verifier looks at the alignment of a vector's length alone.
// A vector without elements stands anywhere: FlatBuffers' builder aligns none.
template <typename T>
bool Aligned(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr || vector->size() == 0 ||
         reinterpret_cast<uintptr_t>(vector->Data()) % alignof(int64_t) == 0;
}

}  // namespace preheat::runtime

#endif  // PREHEAT_KERNELS_RUNTIME_PLAN_FACTS_H_
