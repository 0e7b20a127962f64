#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda/cuda_steps.h"
#include "compiler/codegen/cuda/emitters.h"

namespace preheat::codegen {

using ir::Expr;

namespace {

// Loads of a thread that keep enough bytes on their way from memory: more steps at a time where a step has few.
constexpr int64_t kBytesInFlight = 32;

// Every element on its own: threads are dealt all points of all loops, by vectors along the innermost.
class FlatEmitter : public CudaSteps {
 public:
  FlatEmitter(const Kernel& kernel, const Schedule& schedule) : CudaSteps(kernel, schedule) {}

  absl::StatusOr<CudaKernel> Run() {
    Collect();
    std::vector<const Span*> all;
    std::vector<Expr> multiples;
    for (const Span& span : spans_) {
      all.push_back(&span);
      multiples.insert(multiples.end(), {span.begin, span.end});
    }
    walk_.width = ChooseWidth(walk_.inner, all, multiples);
    ChooseSteps();
    for (const Span& span : spans_) EmitWalk(walk_, span);
    return Finish(launch_);
  }

 private:
  // What the items compute belongs to every step.
  void Collect() {
    Span items{{}, {}, {}, Expr(0), Expr(1)};
    const Stage* stage = nullptr;
    for (const Item& item : k_.order) {
      if (item.stage) {
        stage = &*item.stage;
      } else if (item.store) {
        items.stores.push_back(&*item.store);
      } else {
        items.body.push_back(item.stmt);
      }
    }
    walk_.loops = k_.outer;
    if (k_.tile_loop) {
      walk_.loops.push_back(*k_.tile_loop);
      items.end = k_.tile_loop->size;
    }
    if (stage == nullptr) {
      spans_.push_back(items);
    } else {
      walk_.loops.insert(walk_.loops.end(), stage->loops.begin(), stage->loops.end());
      for (const Piece& piece : stage->pieces) {
        Span span = SpanOf(piece);
        span.body.insert(span.body.begin(), items.body.begin(), items.body.end());
        span.stores.insert(span.stores.begin(), items.stores.begin(), items.stores.end());
        spans_.push_back(std::move(span));
      }
    }
    if (!walk_.loops.empty()) walk_.inner = walk_.loops.back().var;
  }

  void ChooseSteps() {
    Expr steps = StepsOf(walk_, spans_[0]);
    int64_t bytes = 0;
    for (const Span& span : spans_) {
      if (&span != &spans_[0]) steps = Expr::Max(steps, StepsOf(walk_, span));
      bytes += BytesAStep(span, walk_.inner, walk_.width);
    }
    auto known = steps.constant();
    const bool many = !known || *known >= 4 * kFullGrid * kBlock;
    launch_.threads_x =
        Turned("threads", 64, 512).value_or(known && *known < kProcessors * kBlock ? kBlock / 2 : kBlock);
    walk_.in_flight = many ? std::clamp<int64_t>(kBytesInFlight / std::max<int64_t>(bytes, 1), 1, 4) : 1;
    const int64_t most = known ? *known / (kProcessors * launch_.threads_x) : 8;  // that leave a block for each
    walk_.in_flight = Turned("steps", 1, std::min<int64_t>(8, most)).value_or(walk_.in_flight);
    launch_.shared_bytes = launch_.scratch_bytes = Expr(0);
    const int64_t staying = kFullGrid * kBlock / launch_.threads_x;
    const bool stay = Turned("waves", 1, 1) && (!known || *known > staying * launch_.threads_x);
    stay ? DealToStaying(steps, staying) : DealOnce(steps);
  }

  void DealOnce(const Expr& steps) {
    walk_.once = true;
    launch_.grid = Expr::CeilDiv(steps, Expr(launch_.threads_x * walk_.in_flight));
    walk_.more = launch_.grid != Expr(1);
    walk_.lane = absl::StrCat("(long)blockIdx.x * ", launch_.threads_x * walk_.in_flight, " + threadIdx.x");
    walk_.stride = absl::StrCat(launch_.threads_x);
  }

  // To as many blocks as a GPU has room for, each of which goes through all memory.
  void DealToStaying(const Expr& steps, int64_t blocks) {
    launch_.grid = Expr::Min(Expr::CeilDiv(steps, Expr(launch_.threads_x)), Expr(blocks));
    walk_.lane = absl::StrCat("(long)blockIdx.x * ", launch_.threads_x, " + threadIdx.x");
    walk_.stride = absl::StrCat(blocks * launch_.threads_x);
  }

  Walk walk_;
  std::vector<Span> spans_;
  CudaLaunch launch_;
};

}  // namespace

absl::StatusOr<CudaKernel> EmitFlat(const Kernel& kernel, const Schedule& schedule) {
  return FlatEmitter(kernel, schedule).Run();
}

}  // namespace preheat::codegen
