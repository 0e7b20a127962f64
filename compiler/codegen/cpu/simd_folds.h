#ifndef PREHEAT_COMPILER_CODEGEN_CPU_SIMD_FOLDS_H_
#define PREHEAT_COMPILER_CODEGEN_CPU_SIMD_FOLDS_H_

#include <functional>
#include <string>
#include <vector>

#include "compiler/codegen/cpu/cpu_text.h"

namespace preheat::codegen {

// Vector loops that fold into accumulators. A fold waits for its last result, three to five cycles a vector: where
// little else is done, parts of the loop are folded side by side, each into accumulators of its own ("r0_1" beside
// "r0_0"), and these into "r0" in the end. The base of emit_rows; not for use elsewhere.
class SimdFolds : public CpuText {
 protected:
  using CpuText::CpuText;

  // The pragma before a loop of the piece that folds into accumulators with these suffixes; none where a fold must go
  // in order.
  void EmitSimd(const Piece& piece, const std::vector<std::string>& suffixes);
  // Whether there are sums of floats in the piece, and no fold that must go in order.
  bool AddsFloats(const Piece& piece) const;
  // How many parts of the loop are folded side by side; 1: it is one loop.
  int CopiesOf(const Piece& piece) const;
  // The loop over `copies` parts of [begin, end), and what they come to. `body` prints one element for the accumulators
  // with that suffix. A rest of the loop is left: returns where it begins.
  std::string EmitCopies(const Loop& loop, const Piece& piece, int copies, const std::string& begin,
                         const std::string& end, const std::function<void(const std::string& suffix)>& body);
  // Accumulators of a part, and the fold of a part's into others.
  void DeclareParts(const Piece& piece, const std::vector<std::string>& suffixes);
  void FoldPart(const Piece& piece, const std::string& to, const std::string& from);

 private:
  std::string ReductionName(const Accumulator& a) const;
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CPU_SIMD_FOLDS_H_
