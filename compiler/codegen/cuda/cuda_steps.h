#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_STEPS_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_STEPS_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/cuda/cuda_text.h"

namespace preheat::codegen {

// Whether every term of e is a multiple of n, whatever the symbols are.
bool Divisible(const ir::Expr& e, int64_t n);

// How threads walk a piece's elements. The loops' points are numbered; a step is one number, and covers `width`
// elements of the innermost variable: one vector, 16 bytes of memory as a rule. A thread does the steps lane, lane +
// stride, lane + 2 stride, ...: `in_flight` of them at a time, all their loads before anything else.
struct Walk {
  std::vector<Loop> loops;  // from the outermost; steps number their points, the last loop's in vectors
  std::string inner;        // the variable that a vector runs along; empty: none
  std::string inner_begin;  // not empty: where every step's vector begins, and `inner` is none of `loops`
  int64_t width = 1;
  int64_t in_flight = 1;
  bool unrolled = false;     // the loop around rounds is
  bool once = false;         // every thread does `in_flight` steps at most: no loop around them
  std::string lane, stride;  // of a thread, and how many share the steps
  std::string live;          // not empty: stores happen only where it is true
};

// Walks of pieces, by vectors where memory is walked in steps of one. Memory that is fetched in a walk of at most one
// round stays in registers for later walks of the same shape (`once`).
class CudaSteps : public CudaText {
 protected:
  using CudaText::CudaText;
  ~CudaSteps() = default;

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
  // What tells fetched memory apart: buffer, index along the walk, width. Empty when a load is not by vector.
  std::string FetchKey(int load, const std::string& inner, const ir::Expr& begin, int64_t width) const;

  // Steps of a piece; an expression of sizes.
  static ir::Expr StepsOf(const Walk& walk, const Span& span);
  void EmitWalk(const Walk& walk, const Span& span);
  // What one step computes, accumulates and stores; the loops' variables, and `first` of a vector, are defined.
  void EmitElements(const Walk& walk, const Span& span);
  // Statements of the body, or of the item, that differ between the elements of a vector.
  std::set<int> Varying(const Span& span, const std::string& inner) const;
  bool WalksBy(const ir::Expr& e, const std::string& variable, int64_t width) const;
  void ForgetFetched() { resident_.clear(); }

 private:
  struct Fetch {
    int load;
    std::string name;
  };
  bool DependsOn(int s, const std::set<int>& on, const std::string& variable) const;
  bool VectorLoad(int s, const std::set<int>& varying, const std::string& inner, int64_t width) const;
  std::set<int> NeededBy(const std::vector<Fetch>& fetches, const Span& span) const;
  std::string CountText(const Walk& walk, const Span& span, bool& small);
  void OpenStep(const Walk& walk, const Span& span, bool small, const std::string& guard);
  void EmitFetches(const Walk& walk, const Span& span, bool small, const std::string& guard,
                   const std::vector<Fetch>& fetches);
  std::string Guard(const Stmt& load) const;
  void DefineInner(const Walk& walk);
  void EmitFetch(const Walk& walk, const Fetch& fetch, bool aligned);
  void StoreVector(const Store& store, size_t number, int64_t width);
  void EmitOpaque(const Walk& walk, const std::string& name, ir::DType dtype);
  std::string PackType(ir::DType dtype, int64_t width);
  std::string WordsType(int64_t bytes);
  std::string Word(const std::string& name, ir::DType dtype, int64_t k);
  static std::string FetchedElement(const std::string& name, ir::DType dtype, int64_t width);

  std::map<std::string, std::string> resident_;  // key -> register array
  int fetched_arrays_ = 0;
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_STEPS_H_
