#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_VECTORS_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_VECTORS_H_

#include <cstdint>
#include <string>

#include "compiler/codegen/cuda/cuda_access.h"

namespace preheat::codegen {

// How vectors are loaded, kept in a thread's registers and stored. Memory is read and written in the compiler's own
// vector types, which it never takes apart; where "aligned" is false, element by element. A link in the chain of CUDA
// emitters' bases; not for use elsewhere.
class CudaVectors : public CudaAccess {
 protected:
  using CudaAccess::CudaAccess;

  // --- Loads: `name`[i] holds vector i of those in flight, as words ---
  // The type of its elements; the scalar's own where the width is 1.
  std::string KeptType(ir::DType dtype, int64_t width);
  void LoadVector(const Stmt& load, const std::string& name, const std::string& inner, int64_t width, bool aligned);
  // Element "u" of a vector, or the one element of a scalar.
  static std::string KeptElement(const std::string& name, ir::DType dtype, int64_t width);
  // What a later stage computes from a kept row it computes again: the compiler is not to keep the results of the
  // earlier one, which take more registers than the row.
  void MakeOpaque(const std::string& name, ir::DType dtype, int64_t width, int64_t in_flight);

  // --- Stores: "o<number>" collects a vector, whose elements are "o<number>.x[u]" ---
  void DeclarePack(const Store& store, size_t number, int64_t width);
  std::string PackElement(const Store& store, size_t number);  // "o0.x[u] = v3;"
  void StorePack(const Store& store, size_t number, const std::string& inner, int64_t width);

 private:
  std::string PackType(ir::DType dtype, int64_t width);
  std::string WordsType(int64_t bytes);
  std::string Word(const std::string& name, ir::DType dtype, int64_t k);
  std::string AlignedVector(const std::string& from, int64_t bytes);
  // "b2 + (index)", of the first element of a vector.
  std::string First(int buffer, const ir::Expr& index, const std::string& inner);
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_VECTORS_H_
