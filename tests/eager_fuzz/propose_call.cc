#include <utility>

#include "tests/eager_fuzz/proposals.h"

namespace preheat::testing {

using capture::Argument;
using capture::NamedArgument;
using ir::Expr;

std::optional<Call> ProposeCall(ValuePool& pool) {
  switch (pool.Roll(30)) {
    case 0:
    case 1:
    case 2: return ProposeFunction(pool);
    case 3: return ProposeStep(pool);
    case 4:
    case 5:
    case 6: return ProposeArithmetic(pool);
    case 7: return ProposeWithNumber(pool);
    case 8: return ProposeComparison(pool);
    case 9: return ProposeBits(pool);
    case 10: return ProposeThree(pool);
    case 11:
    case 12: return ProposeReduce(pool);
    case 13: return ProposePosition(pool);
    case 14: return ProposeScan(pool);
    case 15: return ProposeNormalize(pool);
    case 16: return ProposePermute(pool);
    case 17: return ProposeReshape(pool);
    case 18: return ProposeSlice(pool);
    case 19: return ProposeJoin(pool);
    case 20: return ProposeRepeat(pool);
    case 21: return ProposePad(pool);
    case 22:
    case 23: return ProposeCast(pool);
    case 24: return ProposeLookup(pool);
    case 25: return ProposeScatter(pool);
    case 26: return ProposeSort(pool);
    case 27: return ProposeProduct(pool);
    case 28: return ProposeConvolve(pool);
    default: return ProposePool(pool);
  }
}

NamedArgument Arg(std::string name, Argument value) { return {std::move(name), std::move(value), false}; }
NamedArgument Key(std::string name, Argument value) { return {std::move(name), std::move(value), true}; }
Argument Int(int64_t value) { return Expr(value); }
Argument Ints(std::vector<int64_t> values) { return std::vector<Expr>(values.begin(), values.end()); }
Argument Ref(const Record& r) { return capture::ValueRef{r.id}; }

const Record* PickFloat(ValuePool& pool) {
  return pool.PickWhere([](const Record& r) { return r.floating(); });
}

const Record* PickRank(ValuePool& pool, int least) {
  return pool.PickWhere([&](const Record& r) { return r.rank() >= least; });
}

}  // namespace preheat::testing
