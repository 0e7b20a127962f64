#include "client/load/made_programs.h"

#include <array>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace preheat::load {
namespace {

constexpr std::array<const char*, 5> kUnary = {"aten.tanh.default", "aten.sigmoid.default", "aten.relu.default",
                                               "aten.abs.default", "aten.neg.default"};
constexpr int kColumns = 64;
constexpr int kDigitBits = 20;

// A chain of operators, each over the result of the one before.
class Chain {
 public:
  explicit Chain(int rows) : rows_(rows) {
    program_.set_format(1);
    program_.add_inputs()->set_value(NewValue());
  }

  void Unary(const char* op) { *Append(op) = SelfArgument(); }

  void WithScalar(const char* op, double scalar) {
    v1::Argument* self = Append(op);
    *self = SelfArgument();
    v1::Argument& other = *program_.mutable_nodes()->rbegin()->add_arguments();
    other.set_name("other");
    other.set_number(scalar);
  }

  v1::Program Finish() && {
    program_.add_outputs()->set_value(last_);
    return std::move(program_);
  }

 private:
  uint32_t NewValue() {
    v1::TensorType& type = *program_.add_values()->mutable_tensor();
    type.set_dtype(v1::DTYPE_F32);
    type.add_sizes(absl::StrCat(rows_));
    type.add_sizes(absl::StrCat(kColumns));
    type.add_strides(absl::StrCat(kColumns));
    type.add_strides(absl::StrCat(1));
    type.set_device_type("cpu");
    type.set_alignment(16);
    last_ = static_cast<uint32_t>(program_.values_size() - 1);
    return last_;
  }

  // A node without arguments, whose result is then the last value; its first argument.
  v1::Argument* Append(const char* op) {
    self_ = last_;
    v1::Node& node = *program_.add_nodes();
    node.set_op(op);
    node.add_results(static_cast<int32_t>(NewValue()));
    return node.add_arguments();
  }
  v1::Argument SelfArgument() const {
    v1::Argument self;
    self.set_name("self");
    self.set_tensor(self_);
    return self;
  }

  const int rows_;
  v1::Program program_;
  uint32_t last_ = 0, self_ = 0;
};

// From 1 to 2, exact in f32: no two digits become one constant.
double Scalar(uint64_t digit) { return 1 + static_cast<double>(digit) / (1 << kDigitBits); }

}  // namespace

v1::Program MakeProgram(uint64_t seed, uint32_t index) {
  std::mt19937_64 random(seed * 1000003 + index);
  Chain chain(8 + static_cast<int>(random() % 120));
  const uint64_t length = 2 + random() % 5;
  for (uint64_t i = 0; i < length; ++i) chain.Unary(kUnary[random() % kUnary.size()]);
  // The pair itself, in digits that no simplification may merge.
  constexpr uint64_t kDigit = (1 << kDigitBits) - 1;
  chain.WithScalar("aten.mul.Scalar", Scalar(index & kDigit));
  for (int shift = 0; shift < 3 * kDigitBits; shift += kDigitBits) {
    chain.WithScalar("aten.add.Scalar", Scalar(seed >> shift & kDigit));
    chain.Unary("aten.tanh.default");
  }
  return std::move(chain).Finish();
}

}  // namespace preheat::load
