#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_ACCESS_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_ACCESS_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/cuda/cuda_text.h"

namespace preheat::codegen {

// Whether every term of e is a multiple of n, whatever the symbols are.
bool Divisible(const ir::Expr& e, int64_t n);

// Which loads and stores of a kernel go by vectors along a variable, and of how many elements. A link in the chain of
// CUDA emitters' bases; not for use elsewhere.
class CudaAccess : public CudaText {
 protected:
  using CudaText::CudaText;

  static constexpr int64_t kWord = 4;  // bytes

  // A piece as the statements, accumulations and stores of a walk, and where the last loop begins and ends.
  struct Span {
    std::vector<int> body;
    std::vector<std::pair<int, int>> accumulations;
    std::vector<const Store*> stores;
    ir::Expr begin, end;
  };
  static Span SpanOf(const Piece& piece);

  // Elements of `variable` in a vector that suits what the spans load and store along it, and that divides all of
  // `multiples`.
  int64_t ChooseWidth(const std::string& variable, const std::vector<const Span*>& spans,
                      const std::vector<ir::Expr>& multiples) const;
  // Bytes of registers that a step loads by vectors.
  int64_t BytesAStep(const Span& span, const std::string& inner, int64_t width) const;
  // What tells fetched memory apart: buffer, index along the walk, width.
  std::string FetchKey(int load, const std::string& inner, const ir::Expr& begin, int64_t width) const;

  // Statements of the body, or of the item, that differ between the elements of a vector.
  std::set<int> Varying(const Span& span, const std::string& inner) const;
  // Whether e is the variable plus a multiple of `width`.
  bool WalksBy(const ir::Expr& e, const std::string& variable, int64_t width) const;
  bool VectorLoad(int s, const std::set<int>& varying, const std::string& inner, int64_t width) const;
  bool VectorStore(const Store& store, const std::string& inner, int64_t width) const;

 private:
  bool DependsOn(int s, const std::set<int>& on, const std::string& variable) const;
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_ACCESS_H_
