#include "compiler/passes/stored.h"

#include <vector>

namespace preheat::passes {

ir::Value Stored(ir::Builder& b, ir::Value v) {
  const std::vector<ir::Expr> none(static_cast<size_t>(v.type().rank()), ir::Expr(0));
  const ir::AttrValue zero = ir::IsFloat(v.dtype()) ? ir::AttrValue(0.0) : ir::AttrValue(int64_t{0});
  return b.Emit(ir::Op::kPad, {v}, {{"low", none}, {"high", none}, {"value", zero}});
}

}  // namespace preheat::passes
