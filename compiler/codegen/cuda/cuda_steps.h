#ifndef PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_STEPS_H_
#define PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_STEPS_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/cuda_vectors.h"

namespace preheat::codegen {

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
  bool more = false;         // there may be more threads than `stride`, where other pieces need them
  std::string lane, stride;  // of a thread, and how many share the steps
  std::string live;          // not empty: stores happen only where it is true
};

// Walks of pieces, by vectors where memory is walked in steps of one. Memory that is fetched in a walk of at most one
// round stays in registers for later walks of the same shape (`once`).
class CudaSteps : public CudaVectors {
 protected:
  using CudaVectors::CudaVectors;

  // Steps of a piece; an expression of sizes.
  static ir::Expr StepsOf(const Walk& walk, const Span& span);
  void EmitWalk(const Walk& walk, const Span& span);
  // What one step computes, accumulates and stores; the loops' variables, and `first` of a vector, are defined.
  void EmitElements(const Walk& walk, const Span& span);

 private:
  struct Fetch {
    int load;
    std::string name;
  };
  // Steps are counted in 32 bits where their number is known to fit.
  struct Count {
    std::string text;
    bool small;
    const char* type() const { return small ? "unsigned" : "long"; }
  };
  Count CountOf(const Walk& walk, const Span& span);
  std::string GuardOf(const Walk& walk, const Span& span, const Count& count) const;
  std::vector<Fetch> PlanFetches(const Walk& walk, const Span& span);
  void DeclareFetches(const Walk& walk, const std::vector<Fetch>& fetches);
  // What is known of the addresses that vectors start from where code is emitted.
  enum class Aligned { kUnknown, kYes, kNo };
  void OpenRounds(const Walk& walk, const Count& count, const std::vector<Fetch>& fetches, bool unrolled);
  void OpenSteps(const Walk& walk, const Span& span, const Count& count, const std::string& guard);
  void CloseSteps();
  void DefineLoops(const Walk& walk, const Span& span, bool small);
  std::set<int> NeededBy(const std::vector<Fetch>& fetches, const Span& span) const;
  void EmitFetches(const Walk& walk, const Span& span, const Count& count, const std::string& guard,
                   const std::vector<Fetch>& fetches, Aligned aligned);
  void EmitRounds(const Walk& walk, const Span& span, const std::vector<Fetch>& fetches, Aligned aligned);
  bool IsNested(const Walk& walk, const Span& span) const;
  void EmitNested(const Walk& walk, const Span& span, const std::vector<Fetch>& fetches);

  std::map<std::string, std::string> resident_;  // key -> register array
  int fetched_arrays_ = 0;
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CUDA_CUDA_STEPS_H_
