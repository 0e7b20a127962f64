#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_INDEXING_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_INDEXING_H_

#include <vector>

#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {

// x[i, :, j]: what torch's index and index_put with a list of index tensors address, null entries taking a
// whole dimension. The indexed dimensions are brought together and folded into one; `index` is then the
// position in it. An index out of range in any dimension lies outside of the folded one, so that it is caught.
struct FoldedIndex {
  std::vector<int64_t> order;  // permutation of x: the indexed dimensions together
  int64_t dim = 0;             // the folded one, after permutation
  std::vector<Expr> folded;    // shape of x permuted and folded
  std::vector<Expr> permuted;  // before folding
  Value index;                 // i64, of the indices' common shape
};
FoldedIndex FoldIndices(OpContext& c, Value x, std::vector<Value> indices);

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_INDEXING_H_
