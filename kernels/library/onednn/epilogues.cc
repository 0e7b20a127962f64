#include <string>

#include "kernels/library/onednn/prepare.h"

namespace preheat::onednn {
namespace {

dnnl::algorithm ActivationOf(int32_t op) {
  switch (op) {
    case PREHEAT_LIB_RELU: return dnnl::algorithm::eltwise_relu;
    case PREHEAT_LIB_GELU: return dnnl::algorithm::eltwise_gelu_erf;
    case PREHEAT_LIB_GELU_TANH: return dnnl::algorithm::eltwise_gelu_tanh;
    case PREHEAT_LIB_SILU: return dnnl::algorithm::eltwise_swish;
    case PREHEAT_LIB_TANH: return dnnl::algorithm::eltwise_tanh;
    case PREHEAT_LIB_SIGMOID: return dnnl::algorithm::eltwise_logistic;
    default: throw Declined{"epilogue"};
  }
}

// One value a channel, seen with the result's rank.
Desc ChannelDesc(const preheat_lib_tensor& bias, const Desc& result, int channel_dim) {
  if (bias.sizes[0] > 1 && bias.strides[0] != 1) throw Declined{"a strided bias"};
  Dims sizes(result.data.ndims, 1);
  sizes[channel_dim] = bias.sizes[0];
  return Dense(sizes, TypeOf(bias.dtype));
}

// bias?, activation? or bias?, residual, relu?
bool IsUsual(const preheat_lib_call& call) {
  int i = 0;
  const auto next_is = [&](auto wanted) { return i < call.num_epilogue && wanted(call.epilogue[i].op) && ++i > 0; };
  next_is([](int32_t op) { return op == PREHEAT_LIB_BIAS; });
  if (next_is([](int32_t op) { return op == PREHEAT_LIB_RESIDUAL; })) {
    next_is([](int32_t op) { return op == PREHEAT_LIB_RELU; });
  } else {
    next_is([](int32_t op) { return op >= PREHEAT_LIB_RELU; });
  }
  return i == call.num_epilogue;
}

}  // namespace

void DeclineReference(const dnnl::primitive_desc_base& desc) {
  const std::string name = desc.impl_info_str();
  if (name.find("ref") != std::string::npos) throw Declined{"only " + name};
}

Epilogues MakeEpilogues(const preheat_lib_call& call, int channel_dim, const std::vector<Desc>& residual_given,
                        const Desc& result, ResidualAs residual_as, std::vector<Argument>& arguments) {
  if (!IsUsual(call)) throw Declined{"a mixture of epilogues"};
  Epilogues made;
  made.attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops ops;
  for (int i = 0; i < call.num_epilogue; ++i) {
    const preheat_lib_epilogue& step = call.epilogue[i];
    if (step.op == PREHEAT_LIB_BIAS) {
      made.bias = true;
      made.bias_desc = ChannelDesc(step.operand, result, channel_dim);
    } else if (step.op == PREHEAT_LIB_RESIDUAL && residual_as == ResidualAs::kSum) {
      ops.append_sum(1.0f);
      arguments.push_back({Argument::Role::kEpilogue, i, 0, residual_given[i], result, false, true});
    } else if (step.op == PREHEAT_LIB_RESIDUAL) {
      const int dnnl_arg = DNNL_ARG_ATTR_MULTIPLE_POST_OP(ops.len()) | DNNL_ARG_SRC_1;
      ops.append_binary(dnnl::algorithm::binary_add, result);
      arguments.push_back({Argument::Role::kEpilogue, i, dnnl_arg, residual_given[i], result, false});
    } else {
      const dnnl::algorithm algorithm = ActivationOf(step.op);
      ops.append_eltwise(1.0f, algorithm, algorithm == dnnl::algorithm::eltwise_swish ? 1.0f : 0.0f, 0.0f);
    }
  }
  made.attr.set_post_ops(ops);
  return made;
}

}  // namespace preheat::onednn
