#ifndef PREHEAT_TESTS_EAGER_FUZZ_VALUE_POOL_H_
#define PREHEAT_TESTS_EAGER_FUZZ_VALUE_POOL_H_

#include <deque>
#include <initializer_list>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/eager_fuzz/random_program.h"

namespace preheat::testing {

using Shape = std::vector<ir::Expr>;

// A value of the program with what eager has for it.
struct Record {
  int id = -1;
  ir::DType dtype = ir::DType::kF32;
  Shape shape;
  ir::HostTensor eager, wide;
  bool exact = false;  // no rounding so far: every way of computing it gives the same bits

  int rank() const { return static_cast<int>(shape.size()); }
  bool floating() const { return ir::IsFloat(dtype); }
};

// An operator that may be added.
struct Call {
  std::string op;
  std::vector<capture::NamedArgument> args;
  std::vector<Shape> shapes;   // of its results
  bool list = false;           // a list of tensors
  bool jumps = false;          // applied to exact values only
  bool function = false;       // its result is rounded, whatever it looks like
  std::vector<int> keep = {};  // results that later operators may use; empty: all
};

// The program so far: its values, new inputs, and calls that eager accepts. References to records stay valid.
class ValuePool {
 public:
  explicit ValuePool(uint64_t seed);

  int Roll(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  template <typename T>
  T Of(std::initializer_list<T> options) {
    return options.begin()[Roll(static_cast<int>(options.size()))];
  }
  std::vector<size_t> Shuffled(size_t n);

  Shape NewShape();
  ir::DType NewType();
  const std::vector<ir::Expr>& symbols() const { return symbols_; }

  // A new input; null when it would be too large or there are enough.
  const Record* Input(const Shape& shape, ir::DType dtype,
                      RandomProgram::Values::Kind kind = RandomProgram::Values::Kind::kQuarters, ir::Expr bound = 4);

  // One of the latest values, mostly.
  const Record& Pick();
  template <typename Fits>
  const Record* PickWhere(const Fits& fits) {
    for (int i = 0; i < 10; ++i) {
      const Record& r = Pick();
      if (fits(r)) return &r;
    }
    return nullptr;
  }

  // True when the call has become part of the program.
  absl::StatusOr<bool> Try(const Call& call);

  // Chooses outputs; the pool is empty afterwards.
  RandomProgram Finish();

 private:
  void AddSymbols();
  int NewValue(const Shape& shape, ir::DType dtype);
  std::vector<int64_t> Sizes(const Shape& shape) const;
  void Lay(capture::AtenType& type, RandomProgram::Values& values);
  void LayOutput(capture::AtenType& type);
  const Record& RecordOf(int id) const;
  bool Admits(Record& record, bool exact) const;
  void Append(const Call& call, std::vector<Record> made);
  bool CanBeOutput(const Record& record) const;

  std::mt19937_64 random_;
  const uint64_t seed_;
  bool special_ = false;  // NaN, infinities and -0 among the inputs
  std::vector<ir::Expr> symbols_;
  std::deque<Record> records_;
  RandomProgram out_;
};

// What the two shapes broadcast to.
std::optional<Shape> Broadcast(const Shape& a, const Shape& b);

// A random operator over values of the pool, which may get new inputs for it; none where the dice ask for what the
// values at hand do not allow.
std::optional<Call> ProposeCall(ValuePool& pool);

}  // namespace preheat::testing

#endif  // PREHEAT_TESTS_EAGER_FUZZ_VALUE_POOL_H_
