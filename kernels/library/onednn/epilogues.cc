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

}  // namespace

void DeclineReference(const dnnl::primitive_desc_base& desc) {
  const std::string name = desc.impl_info_str();
  if (name.find("ref") != std::string::npos) throw Declined{"only " + name};
}

Epilogues MakeEpilogues(const preheat_lib_call& call, int channel_dim, const std::vector<Desc>& residual_given,
                        const Desc& result, bool may_own_bias, std::vector<Argument>& arguments) {
  Epilogues made;
  made.attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops ops;
  for (int i = 0; i < call.num_epilogue; ++i) {
    const preheat_lib_epilogue& step = call.epilogue[i];
    if (step.op == PREHEAT_LIB_BIAS && i == 0 && may_own_bias) {
      made.bias = true;
      made.bias_desc = ChannelDesc(step.operand, result, channel_dim);
      continue;
    }
    if (step.op != PREHEAT_LIB_BIAS && step.op != PREHEAT_LIB_RESIDUAL) {
      const dnnl::algorithm algorithm = ActivationOf(step.op);
      ops.append_eltwise(1.0f, algorithm, algorithm == dnnl::algorithm::eltwise_swish ? 1.0f : 0.0f, 0.0f);
      continue;
    }
    const bool residual = step.op == PREHEAT_LIB_RESIDUAL;
    const Desc given = residual ? residual_given[i] : ChannelDesc(step.operand, result, channel_dim);
    const Desc used = residual ? result : given;
    const int position = ops.len();
    ops.append_binary(dnnl::algorithm::binary_add, used);
    arguments.push_back(
        {Argument::Role::kEpilogue, i, DNNL_ARG_ATTR_MULTIPLE_POST_OP(position) | DNNL_ARG_SRC_1, given, used, false});
  }
  made.attr.set_post_ops(ops);
  return made;
}

}  // namespace preheat::onednn
