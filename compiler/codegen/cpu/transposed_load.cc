#include "compiler/codegen/cpu/transposed_load.h"

#include <string>

#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::Expr;

// Eight by eight in registers, the rest one by one.
const char kTransposedSource[] = R"(typedef float phx_v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int phx_i8 __attribute__((vector_size(32)));
static inline __attribute__((always_inline)) void phx_transpose8(const float* a, long lda, float* u, long ldu) {
  phx_v8 r[8], t[8], s[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = *(const phx_v8*)(a + i * lda);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = __builtin_shuffle(r[i], r[i + 1], (phx_i8){0, 8, 1, 9, 4, 12, 5, 13});
    t[i + 1] = __builtin_shuffle(r[i], r[i + 1], (phx_i8){2, 10, 3, 11, 6, 14, 7, 15});
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    s[i] = __builtin_shuffle(t[i], t[i + 2], (phx_i8){0, 1, 8, 9, 4, 5, 12, 13});
    s[i + 1] = __builtin_shuffle(t[i], t[i + 2], (phx_i8){2, 3, 10, 11, 6, 7, 14, 15});
    s[i + 2] = __builtin_shuffle(t[i + 1], t[i + 3], (phx_i8){0, 1, 8, 9, 4, 5, 12, 13});
    s[i + 3] = __builtin_shuffle(t[i + 1], t[i + 3], (phx_i8){2, 3, 10, 11, 6, 7, 14, 15});
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    *(phx_v8*)(u + i * ldu) = __builtin_shuffle(s[i], s[i + 4], (phx_i8){0, 1, 2, 3, 8, 9, 10, 11});
    *(phx_v8*)(u + (i + 4) * ldu) = __builtin_shuffle(s[i], s[i + 4], (phx_i8){4, 5, 6, 7, 12, 13, 14, 15});
  }
}
static inline __attribute__((always_inline)) void phx_transposed(const float* a, long lda, long rows, long columns,
                                                                 float* u, long ldu) {
  long r = 0;
  for (; r + 8 <= rows; r += 8) {
    long c = 0;
    for (; c + 8 <= columns; c += 8) phx_transpose8(a + r * lda + c, lda, u + c * ldu + r, ldu);
    for (; c < columns; ++c)
      for (long i = r; i < r + 8; ++i) u[c * ldu + i] = a[i * lda + c];
  }
  for (; r < rows; ++r)
    for (long c = 0; c < columns; ++c) u[c * ldu + r] = a[r * lda + c];
}
)";

std::optional<TransposedLoad> FindTransposed(const Stage& stage, const Stmt& load) {
  if (load.kind != Stmt::Kind::kLoad || load.predicate >= 0 || load.depth != 3) return std::nullopt;
  const Loop &line = stage.loops[0], &run = stage.loops[1];
  auto along_run = schedule::LinearIn(load.index, run.var);
  if (!along_run || along_run->first == Expr(0) || along_run->first == Expr(1)) return std::nullopt;
  auto along_line = schedule::LinearIn(along_run->second, line.var);
  if (!along_line || along_line->first != Expr(1)) return std::nullopt;
  const TransposedLoad found{along_line->second, along_run->first};
  for (const Expr& part : {found.start, found.jump}) {
    for (const std::string& symbol : part.Symbols()) {
      if (symbol == line.var || symbol[0] == 'x') return std::nullopt;
    }
  }
  return found;
}

}  // namespace preheat::codegen
