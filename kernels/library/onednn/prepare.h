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

// The call's epilogues as oneDNN's attributes. A bias is the primitive's own argument (`bias` is set).
struct Epilogues {
  dnnl::primitive_attr attr;
  bool bias = false;
  Desc bias_desc;
};
// How a residual is added: by a binary operation of oneDNN's, or by a sum to what lies in the result, where it is put
// first. The best convolutions take sums only.
enum class ResidualAs { kBinary, kSum };

// Takes the epilogues that networks have: bias?, activation? or bias?, residual, relu?. On other mixtures the kernels
// of oneDNN 2.6 are not to be trusted: random calls found wrong results and crashes (two additions,
// additions to results with gaps). Those are declined.
//
// `channel_dim`: the dimension of the result that a bias follows. `residual_given`: the residuals' memory, one an
// epilogue. `result`: the result's layout in the primitive, which a residual takes on. Appends to `arguments` what the
// residual needs.
Epilogues MakeEpilogues(const preheat_lib_call& call, int channel_dim, const std::vector<Desc>& residual_given,
                        const Desc& result, ResidualAs residual_as, std::vector<Argument>& arguments);

}  // namespace preheat::onednn

#endif  // PREHEAT_KERNELS_LIBRARY_ONEDNN_PREPARE_H_
