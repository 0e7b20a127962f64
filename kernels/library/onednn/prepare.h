#ifndef PREHEAT_KERNELS_LIBRARY_ONEDNN_PREPARE_H_
#define PREHEAT_KERNELS_LIBRARY_ONEDNN_PREPARE_H_

#include <memory>

#include "kernels/library/library_call.h"
#include "kernels/library/onednn/prepared.h"

namespace preheat::onednn {

// Throws Declined, or dnnl::error when oneDNN cannot make the primitive: both mean that another provider takes the
// call.
std::unique_ptr<Prepared> PrepareMatMul(const preheat_lib_call& call);
std::unique_ptr<Prepared> PrepareConv(const preheat_lib_call& call);
std::unique_ptr<Prepared> PrepareConvGradInput(const preheat_lib_call& call);
std::unique_ptr<Prepared> PrepareConvGradWeight(const preheat_lib_call& call);

// --- Shared by them ---

// Whether oneDNN has more than its reference loops for a primitive: those are slower than our own.
void DeclineReference(const dnnl::primitive_desc_base& desc);

// The call's epilogues as oneDNN's attributes. A bias that comes first is the primitive's own argument (`bias` is set),
// later ones and residuals are binary additions, whose arguments are added to `arguments`.
struct Epilogues {
  dnnl::primitive_attr attr;
  bool bias = false;
  Desc bias_desc;
};
// `channel_dim`: the dimension of the result that a bias follows. `residual_given`: the residuals' memory, one an
// epilogue. `result`: the result's layout in the primitive, which residuals take on.
Epilogues MakeEpilogues(const preheat_lib_call& call, int channel_dim, const std::vector<Desc>& residual_given,
                        const Desc& result, bool may_own_bias, std::vector<Argument>& arguments);

}  // namespace preheat::onednn

#endif  // PREHEAT_KERNELS_LIBRARY_ONEDNN_PREPARE_H_
