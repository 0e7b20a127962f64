#include "kernels/library/exchanged_operands.h"

#include <string>
#include <utility>

namespace preheat::library {
namespace {

class Swapped : public PreparedCall {
 public:
  explicit Swapped(std::unique_ptr<PreparedCall> call) : call_(std::move(call)) {}
  absl::string_view provider() const override { return call_->provider(); }
  int64_t scratch_bytes() const override { return call_->scratch_bytes(); }
  std::string pack_key(int operand) const override { return call_->pack_key(1 - operand); }
  int64_t packed_bytes(int operand) const override { return call_->packed_bytes(1 - operand); }
  absl::Status Pack(int operand, const void* from, void* to) const override {
    return call_->Pack(1 - operand, from, to);
  }
  std::string algorithm() const override { return call_->algorithm(); }
  absl::Status Run(const preheat_lib_addresses& addresses) const override {
    preheat_lib_addresses exchanged = addresses;
    std::swap(exchanged.operands[0], exchanged.operands[1]);
    std::swap(exchanged.packed[0], exchanged.packed[1]);
    return call_->Run(exchanged);
  }

 private:
  const std::unique_ptr<PreparedCall> call_;
};

}  // namespace

std::unique_ptr<PreparedCall> WithExchangedOperands(std::unique_ptr<PreparedCall> call) {
  return std::make_unique<Swapped>(std::move(call));
}

}  // namespace preheat::library
