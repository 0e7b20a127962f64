// The C interface of this shared object: what oneDNN throws ends here.
#include <cstdio>
#include <exception>

#include "kernels/library/onednn/prepare.h"

using preheat::onednn::Declined;
using preheat::onednn::Prepared;

struct preheat_lib_prepared {
  std::unique_ptr<Prepared> call;
};

namespace {

void Say(char* message, size_t capacity, const char* text) { std::snprintf(message, capacity, "%s", text); }

// 0, or 1 with the reason in `message`.
template <typename Body>
int Guarded(char* message, size_t capacity, const Body& body) {
  try {
    body();
    return 0;
  } catch (const Declined& declined) {
    Say(message, capacity, declined.reason.c_str());
  } catch (const dnnl::error& error) {
    std::snprintf(message, capacity, "status %d: %s", static_cast<int>(error.status), error.message);
  } catch (const std::exception& error) {
    Say(message, capacity, error.what());
  } catch (...) {
    Say(message, capacity, "an unknown exception");
  }
  return 1;
}

void DeclineEmpty(const preheat_lib_tensor& t) {
  for (int d = 0; d < t.rank; ++d) {
    if (t.sizes[d] == 0) throw Declined{"an empty tensor"};
  }
}

std::unique_ptr<Prepared> MakeCall(const preheat_lib_call& call) {
  for (const preheat_lib_tensor* t : {&call.operands[0], &call.operands[1], &call.result}) DeclineEmpty(*t);
  switch (call.op) {
    case PREHEAT_LIB_MATMUL: return preheat::onednn::PrepareMatMul(call);
    case PREHEAT_LIB_CONV: return preheat::onednn::PrepareConv(call);
    case PREHEAT_LIB_CONV_GRAD_INPUT: return preheat::onednn::PrepareConvGradInput(call);
    case PREHEAT_LIB_CONV_GRAD_WEIGHT: return preheat::onednn::PrepareConvGradWeight(call);
    default: throw Declined{"operation"};
  }
}

int Prepare(const preheat_lib_call* call, preheat_lib_prepared** out, char* message, size_t capacity) {
  return Guarded(message, capacity, [&] { *out = new preheat_lib_prepared{MakeCall(*call)}; });
}
void Release(preheat_lib_prepared* prepared) { delete prepared; }
int64_t ScratchBytes(const preheat_lib_prepared* prepared) { return prepared->call->scratch_bytes(); }
const char* PackKey(const preheat_lib_prepared* prepared, int operand) {
  return prepared->call->pack_key(operand).c_str();
}
int64_t PackedBytes(const preheat_lib_prepared* prepared, int operand) { return prepared->call->packed_bytes(operand); }
int Pack(const preheat_lib_prepared* prepared, int operand, const void* from, void* to, char* message,
         size_t capacity) {
  return Guarded(message, capacity, [&] { prepared->call->Pack(operand, from, to); });
}
int Run(const preheat_lib_prepared* prepared, const preheat_lib_addresses* addresses, char* message, size_t capacity) {
  return Guarded(message, capacity, [&] { prepared->call->Run(*addresses); });
}

constexpr preheat_provider_api kApi = {PREHEAT_PROVIDER_ABI, "onednn", &Prepare, &Release, &ScratchBytes, &PackKey,
                                       &PackedBytes,         &Pack,    &Run};

}  // namespace

extern "C" __attribute__((visibility("default"))) const preheat_provider_api* preheat_provider(void) { return &kApi; }
