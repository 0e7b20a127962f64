#ifndef PREHEAT_COMPILER_PASSES_CHANNEL_ORDER_H_
#define PREHEAT_COMPILER_PASSES_CHANNEL_ORDER_H_

#include <cstdint>
#include <vector>

namespace preheat::passes {

// Permutations between [n, c, s...] and [n, s..., c], as Permute's dims.

// [0, 2, ..., rank - 1, 1]: to channels last.
inline std::vector<int64_t> ToChannelsLast(int rank) {
  std::vector<int64_t> order = {0};
  for (int64_t d = 2; d < rank; ++d) order.push_back(d);
  order.push_back(1);
  return order;
}

// [0, rank - 1, 1, ..., rank - 2]: back.
inline std::vector<int64_t> FromChannelsLast(int rank) {
  std::vector<int64_t> order = {0, rank - 1};
  for (int64_t d = 1; d + 1 < rank; ++d) order.push_back(d);
  return order;
}

}  // namespace preheat::passes

#endif  // PREHEAT_COMPILER_PASSES_CHANNEL_ORDER_H_
