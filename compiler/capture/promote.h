#ifndef PREHEAT_COMPILER_CAPTURE_PROMOTE_H_
#define PREHEAT_COMPILER_CAPTURE_PROMOTE_H_

#include <optional>

#include "compiler/capture/aten_program.h"
#include "compiler/ir/dtype.h"

namespace preheat::capture {

// The smallest dtype that holds both, by torch's table.
ir::DType PromoteTypes(ir::DType a, ir::DType b);

// torch's result_type: tensors with dimensions decide before 0-d tensors, these before Python numbers,
// as long as the kind (bool, integer, float, complex) is the same.
class Promotion {
 public:
  void AddTensor(const ir::TensorType& type);
  void AddNumber(const Argument& number);  // an integer, double, bool or Complex; others have no effect

  // Bool when nothing was added.
  ir::DType Result() const;

 private:
  static void Join(std::optional<ir::DType>& into, ir::DType dtype);
  std::optional<ir::DType> dim_, zero_dim_, number_;
};

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_PROMOTE_H_
