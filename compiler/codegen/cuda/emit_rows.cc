#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda/cuda_steps.h"
#include "compiler/codegen/cuda/emitters.h"
#include "compiler/codegen/emit_c.h"
#include "compiler/schedule/access.h"

namespace preheat::codegen {

using ir::Expr;

namespace {

constexpr int64_t kFewItems = 528;      // less than these leave most of a GPU idle, one warp an item
constexpr int64_t kWarpSteps = 4;       // of a lane, when a warp takes a whole item
constexpr int64_t kResidentWords = 40;  // registers of a thread for what it keeps of its row
constexpr int64_t kMostThreads = 1024;
constexpr int64_t kMostHeld = 128;
constexpr int64_t kMostInFlight = 8;

// Items whose stages are shared by the threads of a block, of a warp or of a part of one. What several stages read
// stays in registers where the item is short enough.
class RowEmitter : public CudaSteps {
 public:
  RowEmitter(const Kernel& kernel, const Schedule& schedule) : CudaSteps(kernel, schedule), outer_(kernel.outer) {
    held_ = std::clamp<int64_t>(KnobValue(schedule, "held").value_or(kResidentWords), 0, kMostHeld);
    two_blocks_ = held_ <= kResidentWords;
  }

  absl::StatusOr<CudaKernel> Run() {
    for (const Item& item : k_.order) {
      if (item.stage) PlanStage(*item.stage);
    }
    ChooseThreads();
    EmitItem();
    for (const Item& item : k_.order) {
      if (item.stage) {
        EmitStage(*item.stage);
      } else if (item.store) {
        Line(absl::StrCat("if (", Leader(), ") ", StoreStatement(*item.store)));
      } else {
        Define(item.stmt);
      }
    }
    return Finish(launch_);
  }

 private:
  struct StagePlan {
    int64_t width = 1;
    int64_t steps = 0;  // of its longest piece; 0: not known
    int64_t words = 0;  // registers that a step's vectors take
  };

  std::string Inner(const Stage& stage) const { return stage.loops.empty() ? "" : stage.loops.back().var; }

  void PlanStage(const Stage& stage) {
    std::vector<Span> spans;
    std::vector<const Span*> all;
    std::vector<Expr> multiples;
    for (const Piece& piece : stage.pieces) spans.push_back(SpanOf(piece));
    for (const Span& span : spans) {
      all.push_back(&span);
      multiples.insert(multiples.end(), {span.begin, span.end});
    }
    StagePlan plan;
    plan.width = ChooseWidth(Inner(stage), all, multiples);
    Walk walk;
    walk.loops = stage.loops;
    walk.width = plan.width;
    plan.steps = 1;
    for (const Span& span : spans) {
      auto steps = StepsOf(walk, span).constant();
      plan.steps = steps && plan.steps > 0 ? std::max(plan.steps, *steps) : 0;
      plan.words = std::max(plan.words, BytesAStep(span, Inner(stage), plan.width) / 4);
    }
    plans_[&stage] = plan;
    longest_ = plan.steps > 0 && longest_ > 0 ? std::max(longest_, plan.steps) : 0;
    words_ = std::max(words_, plan.words);
  }

  static int64_t Steps(int64_t all, int64_t threads) { return (all + threads - 1) / threads; }

  // As few threads an item as keep its loads in flight; more when there are few items.
  void ChooseThreads() {
    launch_.shared_bytes = launch_.scratch_bytes = Expr(0);
    auto items = k_.extent.constant();
    const bool few = items && *items < kFewItems;
    if (longest_ > 0 && longest_ <= (few ? kWarp : kWarp * kWarpSteps)) {
      const bool by_one = longest_ <= kWarp && std::all_of(plans_.begin(), plans_.end(),
                                                           [](const auto& plan) { return plan.second.width == 1; });
      launch_.threads_x = by_one && !few ? 1 : std::min(kWarp, PowerOfTwoFrom(longest_));
    } else {
      launch_.threads_x = longest_ == 0 ? kBlock : 64;
      const int64_t most_steps = few ? 1 : 4;
      auto too_few = [&](int64_t threads) {
        const int64_t steps = Steps(longest_, threads);
        return steps > 1 && (steps > most_steps || words_ * steps > kResidentWords);
      };
      while (longest_ > 0 && launch_.threads_x < 512 && too_few(launch_.threads_x)) launch_.threads_x *= 2;
      // Longer rows than registers hold are read again, from the second-level cache; two blocks at a time hide more
      // than one large one that keeps its row.
      if (longest_ > 0 && few && Steps(longest_, 512) > 1) launch_.threads_x = 1024;
    }
    TurnThreads(items);
    launch_.grid = Expr::CeilDiv(k_.extent, Expr(launch_.threads_y));
    if (launch_.threads_x == 1) OrderItems();
  }

  // What the schedule asks for, as far as threads have steps to do and multiprocessors blocks.
  void TurnThreads(std::optional<int64_t> items) {
    const int64_t chosen = launch_.threads_x, steps = longest_ > 0 ? PowerOfTwoFrom(longest_) : kMostThreads;
    launch_.threads_x =
        Turned("row_threads", std::max<int64_t>(1, chosen / 4), std::min({chosen * 4, steps, kMostThreads}))
            .value_or(chosen);
    const int64_t most_rows = std::max<int64_t>(1, items.value_or(INT32_MAX) / kProcessors);
    const int64_t most = std::min(kMostThreads, launch_.threads_x * most_rows);
    const int64_t threads =
        Turned("threads", launch_.threads_x, most).value_or(launch_.threads_x > kWarp ? launch_.threads_x : kBlock);
    launch_.threads_y = threads / launch_.threads_x;
  }

  // A thread an item: neighbours take those that lie side by side in memory.
  void OrderItems() {
    std::map<std::string, int> side_by_side;
    for (const Stmt& stmt : k_.stmts) {
      if (stmt.kind != Stmt::Kind::kLoad) continue;
      for (const Loop& loop : outer_) side_by_side[loop.var] += WalksBy(stmt.index, loop.var, 1) ? 1 : 0;
    }
    auto best = std::max_element(outer_.begin(), outer_.end(), [&](const Loop& a, const Loop& b) {
      return side_by_side[a.var] < side_by_side[b.var];
    });
    if (best != outer_.end() && side_by_side[best->var] > side_by_side[outer_.back().var])
      std::rotate(best, best + 1, outer_.end());
  }

  bool Shared() const { return launch_.threads_y > 1; }  // a block has several items
  std::string Leader() const {
    std::string leader = launch_.threads_x == 1 ? "" : "threadIdx.x == 0";
    if (!Shared()) return leader;
    return leader.empty() ? "live" : leader + " && live";
  }

  // Threads past the last item repeat it and store nothing, so that all of a warp meet.
  void EmitItem() {
    if (Shared()) {
      Line(absl::StrCat("const long slot = (long)blockIdx.x * ", launch_.threads_y, " + threadIdx.y;"));
      Line("const bool live = slot < extent;");
      Line("const long item = live ? slot : extent - 1;");
    } else {
      Line("const long item = blockIdx.x;");
    }
    Line("long q = item;");
    DefineOuter(outer_);
  }

  void EmitStage(const Stage& stage) {
    const StagePlan& plan = plans_[&stage];
    DeclareAccumulators(stage.accumulators);
    for (const Piece& piece : stage.pieces) {
      Walk walk;
      walk.loops = stage.loops;
      walk.inner = Inner(stage);
      walk.width = plan.width;
      walk.lane = launch_.threads_x == 1 ? "0" : "threadIdx.x";
      walk.stride = absl::StrCat(launch_.threads_x);
      walk.live = Shared() ? "live" : "";
      const Span span = SpanOf(piece);
      const auto steps = StepsOf(walk, span).constant();
      const int64_t rounds = steps ? Steps(*steps, launch_.threads_x) : 0;
      walk.once = rounds > 0 && rounds * plan.words <= held_ && rounds <= 16;
      walk.in_flight =
          walk.once ? rounds
                    : Turned("steps", 1, kMostInFlight)
                          .value_or(std::clamp<int64_t>(16 / std::max<int64_t>(1, plan.words), 1, kMostInFlight));
      EmitWalk(walk, span);
    }
    Combine(stage.accumulators);
  }

  // --- Every thread of an item ends with the same result ---

  void Combine(const std::vector<int>& accumulators) {
    if (launch_.threads_x == 1 || accumulators.empty()) return;
    for (int a : accumulators) {
      Shuffle(a, std::string(CType(k_.accumulators[a].dtype)),
              absl::StrCat("int m = ", std::min(kWarp, launch_.threads_x) / 2, "; m > 0; m >>= 1"));
    }
    if (launch_.threads_x <= kWarp) return;
    for (int a : accumulators) {
      const Accumulator& accumulator = k_.accumulators[a];
      absl::StrAppend(&head_, "  __shared__ ", SharedType(accumulator.dtype), " red", a, "[", Warps(), "];\n");
      Line(absl::StrCat("if ((threadIdx.x & 31) == 0) red", a, "[", InRow("threadIdx.x >> 5"), "] = r", a, ";"));
      if (!IsArg(accumulator.op)) continue;
      absl::StrAppend(&head_, "  __shared__ long red", a, "i[", Warps(), "];\n");
      Line(absl::StrCat("if ((threadIdx.x & 31) == 0) red", a, "i[", InRow("threadIdx.x >> 5"), "] = r", a, "i;"));
    }
    Line("__syncthreads();");
    for (int a : accumulators) Fold(a);
  }

  int64_t Warps() const { return launch_.threads_x * launch_.threads_y / kWarp; }
  // The place in shared memory of a row's warp, of which there are several.
  std::string InRow(const std::string& warp) const {
    return Shared() ? absl::StrCat("threadIdx.y * ", launch_.threads_x / kWarp, " + (", warp, ")") : warp;
  }

  // The warps' results in one order.
  void Fold(int a) {
    const Accumulator& accumulator = k_.accumulators[a];
    std::string type(CType(accumulator.dtype));
    Line(absl::StrCat("r", a, " = (", type, ")red", a, "[", InRow("0"), "];"));
    if (IsArg(accumulator.op)) Line(absl::StrCat("r", a, "i = red", a, "i[", InRow("0"), "];"));
    Line("#pragma unroll");
    Open(absl::StrCat("for (int w = 1; w < ", launch_.threads_x / kWarp, "; ++w)"));
    Line(absl::StrCat("const ", type, " o = (", type, ")red", a, "[", InRow("w"), "];"));
    if (IsArg(accumulator.op)) Line(absl::StrCat("const long oi = red", a, "i[", InRow("w"), "];"));
    Accumulate(a, "o", "oi");
    Close();
  }

  std::vector<Loop> outer_;
  std::map<const Stage*, StagePlan> plans_;
  int64_t longest_ = 1;  // steps of the longest stage; 0: not known
  int64_t words_ = 0;    // registers that a step's vectors take, at most
  int64_t held_ = 0;     // registers of a thread for what it keeps of its row
  CudaLaunch launch_;
};

}  // namespace

absl::StatusOr<CudaKernel> EmitRows(const Kernel& kernel, const Schedule& schedule) {
  return RowEmitter(kernel, schedule).Run();
}

}  // namespace preheat::codegen
