#include "kernels/library/onednn/prepare.h"

namespace preheat::onednn {
namespace {

// oneDNN multiplies well what is dense in its rows or its columns; anything else is copied first.
Desc Usable(const Dims& sizes, const Dims& strides, const Desc& given, dnnl::memory::data_type type) {
  const size_t rows = sizes.size() - 2, columns = sizes.size() - 1;
  const auto dense = [&](size_t inner, size_t outer) {
    return (sizes[inner] == 1 || strides[inner] == 1) && (sizes[outer] == 1 || strides[outer] >= sizes[inner]);
  };
  return dense(columns, rows) || dense(rows, columns) ? given : Dense(sizes, type);
}

bool HasResidual(const preheat_lib_call& call) {
  for (int i = 0; i < call.num_epilogue; ++i) {
    if (call.epilogue[i].op == PREHEAT_LIB_RESIDUAL) return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<Prepared> PrepareMatMul(const preheat_lib_call& call) {
  const dnnl::memory::data_type type = TypeOf(call.result.dtype);
  // oneDNN 2.6 multiplies bf16 in pairs: the last of an odd number meets a zero, which makes a NaN of an infinity.
  const int64_t products = call.operands[0].sizes[call.operands[0].rank - 1];
  if (type == dnnl::memory::data_type::bf16 && products % 2 != 0) throw Declined{"an odd number of products in bf16"};
  const MatMulShape shape = JoinBatches(call);
  const Desc a_given = Strided(shape.a_sizes, shape.a_strides, type);
  const Desc b_given = Strided(shape.b_sizes, shape.b_strides, type);
  const Desc c_given = Strided(shape.c_sizes, shape.c_strides, type);
  const Desc a = Usable(shape.a_sizes, shape.a_strides, a_given, type);
  // Additions of oneDNN 2.6 find their operands wrongly when the result has gaps or batches that lie inside its rows.
  const Desc c_dense = Dense(shape.c_sizes, type);
  const bool rows_dense = shape.c_sizes.back() == 1 || shape.c_strides.back() == 1;
  const Desc c = rows_dense && !HasResidual(call) ? c_given : c_dense;
  const bool packs = call.frozen[1] != 0;
  const Desc b = packs ? Desc(shape.b_sizes, type, dnnl::memory::format_tag::any)
                       : Usable(shape.b_sizes, shape.b_strides, b_given, type);

  std::vector<Desc> residuals;
  for (const Dims& strides : shape.residual_strides) {
    residuals.push_back(strides.empty() ? Desc() : Strided(shape.c_sizes, strides, type));
  }
  std::vector<Argument> arguments;
  const int columns = static_cast<int>(shape.c_sizes.size()) - 1;
  const Epilogues epilogues = MakeEpilogues(call, columns, residuals, c, ResidualAs::kBinary, arguments);
  const dnnl::matmul::desc desc =
      epilogues.bias ? dnnl::matmul::desc(a, b, epilogues.bias_desc, c) : dnnl::matmul::desc(a, b, c);
  const dnnl::matmul::primitive_desc primitive(desc, epilogues.attr, Engine());
  DeclineReference(primitive);
  arguments.push_back({Argument::Role::kOperand, 0, DNNL_ARG_SRC, a_given, a, false});
  arguments.push_back({Argument::Role::kOperand, 1, DNNL_ARG_WEIGHTS, b_given, primitive.weights_desc(),
                       packs && b_given != primitive.weights_desc()});
  arguments.push_back({Argument::Role::kResult, 0, DNNL_ARG_DST, c_given, c, false});
  if (epilogues.bias) {
    arguments.push_back({Argument::Role::kEpilogue, 0, DNNL_ARG_BIAS, epilogues.bias_desc, epilogues.bias_desc, false});
  }
  return std::make_unique<Prepared>(dnnl::matmul(primitive), primitive.scratchpad_desc(), std::move(arguments));
}

}  // namespace preheat::onednn
