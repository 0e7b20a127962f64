#ifndef PREHEAT_TESTS_EAGER_FUZZ_PROPOSALS_H_
#define PREHEAT_TESTS_EAGER_FUZZ_PROPOSALS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/eager_fuzz/value_pool.h"

namespace preheat::testing {

// What ProposeCall chooses among: a random operator of a family each, over values of the pool; none where the dice ask
// for what the values at hand do not allow.

// propose_pointwise.cc: functions of one, two and three values, element by element, and casts.
std::optional<Call> ProposeFunction(ValuePool& pool);
std::optional<Call> ProposeStep(ValuePool& pool);
std::optional<Call> ProposeArithmetic(ValuePool& pool);
std::optional<Call> ProposeWithNumber(ValuePool& pool);
std::optional<Call> ProposeComparison(ValuePool& pool);
std::optional<Call> ProposeBits(ValuePool& pool);
std::optional<Call> ProposeThree(ValuePool& pool);
std::optional<Call> ProposeCast(ValuePool& pool);

// propose_reduction.cc: reductions, positions of extremes, scans, softmax and norms.
std::optional<Call> ProposeReduce(ValuePool& pool);
std::optional<Call> ProposePosition(ValuePool& pool);
std::optional<Call> ProposeScan(ValuePool& pool);
std::optional<Call> ProposeNormalize(ValuePool& pool);

// propose_view.cc: views, joins, repetitions and padding.
std::optional<Call> ProposePermute(ValuePool& pool);
std::optional<Call> ProposeReshape(ValuePool& pool);
std::optional<Call> ProposeSlice(ValuePool& pool);
std::optional<Call> ProposeJoin(ValuePool& pool);
std::optional<Call> ProposeRepeat(ValuePool& pool);
std::optional<Call> ProposePad(ValuePool& pool);

// propose_indexed.cc: lookups and scatters by indices; sorts.
std::optional<Call> ProposeLookup(ValuePool& pool);
std::optional<Call> ProposeScatter(ValuePool& pool);
std::optional<Call> ProposeSort(ValuePool& pool);

// propose_product.cc: matrix products, convolutions and pooling.
std::optional<Call> ProposeProduct(ValuePool& pool);
std::optional<Call> ProposeConvolve(ValuePool& pool);
std::optional<Call> ProposePool(ValuePool& pool);

// --- Arguments ---

capture::NamedArgument Arg(std::string name, capture::Argument value);
capture::NamedArgument Key(std::string name, capture::Argument value);  // by keyword only
capture::Argument Int(int64_t value);
capture::Argument Ints(std::vector<int64_t> values);
capture::Argument Ref(const Record& r);

const Record* PickFloat(ValuePool& pool);
const Record* PickRank(ValuePool& pool, int least);

}  // namespace preheat::testing

#endif  // PREHEAT_TESTS_EAGER_FUZZ_PROPOSALS_H_
