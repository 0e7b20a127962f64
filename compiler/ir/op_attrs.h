#ifndef PREHEAT_COMPILER_IR_OP_ATTRS_H_
#define PREHEAT_COMPILER_IR_OP_ATTRS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace preheat::ir {

// No shape has more elements, no size or step is larger: products of two of them still fit in 64 bits.
inline constexpr int64_t kMaxElements = int64_t{1} << 40;
inline constexpr int kMaxRank = 16;

// True when the expressions of a shape, and their product, are small enough to be handled.
bool IsManageable(absl::Span<const Expr> shape);

// The attributes of one operator as its type rule reads them: every failure is INVALID_ARGUMENT and
// begins with the operator's name; what no rule has asked for is refused in the end.
class OpAttrs {
 public:
  // Refers to `attrs`, which must outlive it.
  OpAttrs(Op op, const Attrs& attrs) : op_(op), attrs_(attrs) {}

  Op op() const { return op_; }
  bool Has(const std::string& name) const { return attrs_.count(name) != 0; }
  absl::Status Fail(absl::string_view what) const;

  // The attribute, of that kind.
  template <typename T>
  absl::StatusOr<const T*> Get(const std::string& name) {
    asked_.insert(name);
    auto it = attrs_.find(name);
    if (it == attrs_.end()) return Fail("lacks the attribute " + name);
    const T* value = std::get_if<T>(&it->second);
    if (value == nullptr) return Fail("attribute " + name + " is of another kind");
    return value;
  }

  // A list with one entry a dimension.
  template <typename T>
  absl::StatusOr<const std::vector<T>*> Each(const std::string& name, int rank) {
    absl::StatusOr<const std::vector<T>*> list = Get<std::vector<T>>(name);
    if (list.ok() && static_cast<int>((*list)->size()) != rank) return Fail(name + " has not one entry a dimension");
    return list;
  }

  absl::StatusOr<int64_t> Dim(const std::string& name, int rank);                       // 0 <= dim < rank
  absl::StatusOr<const std::vector<int64_t>*> Dims(const std::string& name, int rank);  // likewise, each once
  absl::StatusOr<int64_t> Positive(const std::string& name);                            // 1 to kMaxElements
  absl::StatusOr<const std::vector<int64_t>*> Small(const std::string& name, int count,
                                                    int64_t min);  // `count` ints >= min
  absl::Status CheckScalar(const std::string& name, DType dtype);

  // Constant sizes are not negative, the shape not huge.
  absl::Status CheckSizes(const TensorType& type) const;
  absl::Status CheckNothingElse() const;

 private:
  Op op_;
  const Attrs& attrs_;
  std::set<std::string> asked_;
};

}  // namespace preheat::ir

#endif  // PREHEAT_COMPILER_IR_OP_ATTRS_H_
