#include "compiler/passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/equal.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/align_products.h"
#include "compiler/passes/choose_channels_last.h"
#include "compiler/passes/eliminate_common.h"
#include "compiler/passes/eliminate_dead_code.h"
#include "compiler/passes/fold_channel_scales.h"
#include "compiler/passes/fold_constants.h"
#include "compiler/passes/fold_narrow_norms.h"
#include "compiler/passes/form_attention.h"
#include "compiler/passes/form_library_epilogues.h"
#include "compiler/passes/keep_channels_last.h"
#include "compiler/passes/lay_out_convolutions.h"
#include "compiler/passes/merge_matmul_views.h"
#include "compiler/passes/multiply_patches.h"
#include "compiler/passes/put_few_rows.h"
#include "compiler/passes/simplify.h"
#include "compiler/passes/split_column_sums.h"
#include "compiler/passes/split_reductions.h"
#include "compiler/passes/spread_reductions.h"
#include "compiler/passes/store_block_operands.h"
#include "compiler/passes/store_swapped_inputs.h"
#include "compiler/passes/sum_channel_filters.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::passes {
namespace {

constexpr Pass kPasses[] = {
    {"eliminate_dead_code", "first, so that nothing below works on what nobody asked for", EliminateDeadCode},
    {"fold_constants", "before simplify, whose rules see fills and not how they were computed", FoldConstants},
    {"simplify", "after fold_constants; shrinks what all others look through", Simplify},
    {"fold_constants", "once more: simplify turns views of fills into fills", FoldConstants},
    {"eliminate_common", "after simplify, which makes equal what was only equivalent", EliminateCommon},
    {"eliminate_dead_code", "dead users keep attention from forming", EliminateDeadCode},
    {"form_attention", "before merge_matmul_views, which would take the scores' shape apart", FormAttention, For::kCpu},
    {"form_attention_grad", "beside it", FormAttentionGrad, For::kCpu},
    {"fold_channel_scales", "before form_library_epilogues: a scale between would end its chains", FoldChannelScales},
    {"fold_narrow_norms", "beside it, for 16-bit floats", FoldNarrowNorms, For::kGpu},
    {"merge_matmul_views", "before form_library_epilogues, which fuses the matmul that it leaves", MergeMatmulViews},
    {"simplify", "the views and scales of the last two passes meet those that were there", Simplify},
    {"eliminate_common", "activations of one value are found only where it is computed once", EliminateCommon},
    {"eliminate_dead_code", "dead users keep chains from forming", EliminateDeadCode},
    {"multiply_patches", "after fold_channel_scales, which knows convolutions only", MultiplyPatches, For::kGpu},
    {"align_products", "before epilogues are formed, which take no cut results", AlignProducts, For::kGpu},
    {"form_library_epilogues", "late: it hides elementwise operators from the rules above", FormLibraryEpilogues,
     For::kCpu},
    {"form_gpu_epilogues", "where form_library_epilogues stands on a CPU", FormGpuEpilogues, For::kGpu},
    {"choose_channels_last", "after form_library_epilogues, which looks for chains without views", ChooseChannelsLast,
     For::kCpu},
    {"choose_gpu_channels_last", "where choose_channels_last stands on a CPU", ChooseGpuChannelsLast, For::kGpu},
    {"simplify", "views around the new calls meet the views around the operators that are gone", Simplify},
    {"eliminate_common", "calls that share an operand look at one view of it", EliminateCommon},
    {"form_gpu_epilogues", "again: what follows a product of patches has its channels last only now", FormGpuEpilogues,
     For::kGpu},
    {"split_reductions", "after simplify, which would put the two halves together again", SplitReductions, For::kCpu},
    {"split_column_sums", "after simplify, for the same reason", SplitColumnSums, For::kCpu},
    {"put_few_rows", "before spread_reductions, which shares out the sums that it makes", PutFewRows, For::kGpu},
    {"spread_reductions", "in its place where blocks of threads are to be kept busy", SpreadReductions, For::kGpu},
    {"sum_channel_filters", "after choose_channels_last and simplify: it stores filters by pads of nothing",
     SumChannelFilters, For::kGpu},
    {"eliminate_dead_code", "at the end: what was replaced goes", EliminateDeadCode},
    {"store_block_operands", "behind simplify, which would take its copies for nothing", StoreBlockOperands},
    {"store_swapped_inputs", "behind simplify, for the same reason", StoreSwappedInputs},
    {"keep_channels_last", "last: simplify would take its views for nothing", KeepChannelsLast, For::kCpu},
    {"lay_out_convolutions", "last: simplify would take its copies for nothing", LayOutConvolutions, For::kGpu},
};

absl::Status CheckNames(const std::set<std::string>& disabled) {
  std::set<std::string> known;
  for (const Pass& pass : kPasses) known.insert(std::string(pass.name));
  for (const std::string& name : disabled) {
    if (known.count(name) != 0) continue;
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.kind = "unknown_pass",
                      .message = absl::StrCat("there is no pass \"", name, "\""),
                      .where = "",
                      .fix = absl::StrCat("passes are ", absl::StrJoin(known, ", "))});
  }
  return absl::OkStatus();
}

absl::Status InPass(absl::string_view name, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InternalError(absl::StrCat("pass ", name, ": ", status.message()));
}

absl::StatusOr<ir::Graph> RunOne(const Pass& pass, const ir::Graph& graph, const PipelineOptions& options) {
  auto start = std::chrono::steady_clock::now();
  absl::StatusOr<ir::Graph> result = pass.run(graph);
  RETURN_IF_ERROR(InPass(pass.name, result.status()));
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (options.verify) RETURN_IF_ERROR(InPass(pass.name, ir::Verify(*result)));
  if (options.on_pass) {
    options.on_pass({pass.name, seconds.count(), !ir::Equal(graph, *result), result->nodes().size()});
  }
  return result;
}

}  // namespace

absl::Span<const Pass> Passes() { return kPasses; }

absl::StatusOr<ir::Graph> RunPipeline(ir::Graph graph, const PipelineOptions& options) {
  RETURN_IF_ERROR(CheckNames(options.disabled));
  if (options.verify) RETURN_IF_ERROR(ir::Verify(graph));
  for (const Pass& pass : kPasses) {
    if (options.cancelled && *options.cancelled) return absl::CancelledError("cancelled between passes");
    if (pass.targets == (options.gpu ? For::kCpu : For::kGpu)) continue;
    if (options.disabled.count(std::string(pass.name)) != 0) continue;
    ASSIGN_OR_RETURN(graph, RunOne(pass, graph, options));
  }
  return graph;
}

}  // namespace preheat::passes
