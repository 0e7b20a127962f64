#ifndef PREHEAT_TESTS_CONFORMANCE_RANDOM_GRAPH_H_
#define PREHEAT_TESTS_CONFORMANCE_RANDOM_GRAPH_H_

#include <cstdint>

#include "compiler/ir/graph.h"

namespace preheat::testing {

// A small random program: up to `size` operators of every kind that regions are made of (pointwise, views, reductions,
// casts, take, concat, pad, matrix products), over f32, i64, bool and bf16, 0-size and 0-d tensors among them; with
// `symbolic` one dimension of the inputs is the symbol d0.
ir::Graph RandomGraph(uint64_t seed, int size, bool symbolic);

}  // namespace preheat::testing

#endif  // PREHEAT_TESTS_CONFORMANCE_RANDOM_GRAPH_H_
