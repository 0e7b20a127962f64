#include "compiler/assign_memory.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <variant>
#include <vector>

#include "compiler/schedule/plan_memory.h"

namespace preheat {
namespace {

using artifact::Storage;
using ir::Expr;

constexpr size_t kMostLenders = 16;  // results, the largest ones

// Buffers of the arena one after the other in the same place: each but the first is written over the one before.
struct Tenancy {
  std::vector<uint32_t> buffers;
  int first = 0, last = 0;  // step
};

// A result that the caller's memory is ready for before it is written.
struct Lender {
  uint32_t index = 0;
  int64_t bytes = 0, element = 0;
  int first = std::numeric_limits<int>::max();  // step that touches it
  std::set<uint32_t> replaced;                  // buffers that this step may write it over
  std::map<int, int> lent;                      // lifetimes, which do not overlap: first step -> last
};

class Assignment {
 public:
  Assignment(artifact::Plan& plan, const BufferLives& lives, const std::vector<InPlaceStep>& in_place)
      : plan_(plan), lives_(lives), in_place_(in_place) {}

  void Run(bool lend) {
    PlaceSession();
    MakeTenancies();
    if (lend && !TorchRunsSome()) LendOutputs();
    PlaceArena();
  }

 private:
  const artifact::Buffer& At(uint32_t buffer) const { return plan_.buffers[buffer]; }
  bool InArena(uint32_t buffer) const { return At(buffer).storage == Storage::kArena; }

  void PlaceSession() {
    Expr end;
    for (artifact::Buffer& buffer : plan_.buffers) {
      if (buffer.storage != Storage::kSession) continue;
      buffer.offset = end;
      end = end + Expr::CeilDiv(buffer.bytes, schedule::kBufferAlignment) * Expr(schedule::kBufferAlignment);
    }
    plan_.session_bytes = end;
  }

  // --- In place ---

  void MakeTenancies() {
    for (uint32_t buffer = 0; buffer < plan_.buffers.size(); ++buffer) {
      if (!InArena(buffer)) continue;
      const auto life = lives_.find(buffer);
      tenancy_of_[buffer] = tenancies_.size();
      tenancies_.push_back({{buffer}, 0, 0});
      if (life != lives_.end())
        tenancies_.back().first = life->second.first, tenancies_.back().last = life->second.second;
    }
    for (const InPlaceStep& step : in_place_) Join(step);
    EraseEmpty();
  }
  void EraseEmpty() {
    std::erase_if(tenancies_, [](const Tenancy& tenancy) { return tenancy.buffers.empty(); });
  }

  // In the order of steps: what is written has its place from no step before.
  void Join(const InPlaceStep& step) {
    if (!InArena(step.read) || !InArena(step.written) || At(step.read).bytes != At(step.written).bytes) return;
    Tenancy &before = tenancies_[tenancy_of_.at(step.read)], &after = tenancies_[tenancy_of_.at(step.written)];
    if (&before == &after || before.buffers.back() != step.read || before.first < 0 || before.last != step.step) return;
    if (after.buffers.size() != 1 || after.first != step.step) return;
    before.buffers.push_back(step.written);
    before.last = after.last;
    after.buffers.clear();
    tenancy_of_[step.written] = tenancy_of_.at(step.read);
  }

  // --- In results ---

  bool TorchRunsSome() const {
    return std::any_of(plan_.steps.begin(), plan_.steps.end(),
                       [](const artifact::Step& step) { return std::holds_alternative<artifact::ExternStep>(step); });
  }

  // To the largest first.
  void LendOutputs() {
    std::vector<Lender> lenders = FindLenders();
    std::vector<size_t> order;
    for (size_t t = 0; t < tenancies_.size(); ++t) {
      if (At(tenancies_[t].buffers[0]).bytes.is_constant()) order.push_back(t);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return BytesOf(a) > BytesOf(b); });
    for (size_t t : order) {
      for (size_t i = lenders.size(); i-- > 0;) {  // the smallest first
        if (!Lends(lenders[i], tenancies_[t])) continue;
        Move(tenancies_[t], lenders[i].index);
        break;
      }
    }
  }
  int64_t BytesOf(size_t tenancy) const { return *At(tenancies_[tenancy].buffers[0]).bytes.constant(); }

  // Dense results of known size.
  std::vector<Lender> FindLenders() const {
    std::map<uint32_t, Lender> lenders;
    for (uint32_t number : plan_.output_buffers) {
      const artifact::Buffer& buffer = At(number);
      const auto bytes = buffer.bytes.constant();
      if (buffer.storage != Storage::kOutput || !bytes || buffer.strides != ir::RowMajorStrides(buffer.type.shape))
        continue;
      Lender& lender = lenders[buffer.index];
      lender.index = buffer.index, lender.bytes = *bytes, lender.element = ir::DTypeSize(buffer.type.dtype);
    }
    for (const auto& [number, life] : lives_) {
      auto lender = At(number).storage == Storage::kOutput ? lenders.find(At(number).index) : lenders.end();
      if (lender != lenders.end()) lender->second.first = std::min(lender->second.first, life.first);
    }
    for (const InPlaceStep& step : in_place_) {
      auto lender = At(step.written).storage == Storage::kOutput ? lenders.find(At(step.written).index) : lenders.end();
      if (lender != lenders.end() && lender->second.first == step.step) lender->second.replaced.insert(step.read);
    }
    return Largest(std::move(lenders));
  }

  static std::vector<Lender> Largest(std::map<uint32_t, Lender> lenders) {
    std::vector<Lender> sorted;
    for (auto& [index, lender] : lenders) sorted.push_back(std::move(lender));
    std::stable_sort(sorted.begin(), sorted.end(), [](const Lender& a, const Lender& b) { return a.bytes > b.bytes; });
    if (sorted.size() > kMostLenders) sorted.resize(kMostLenders);
    return sorted;
  }

  // Results are aligned to their elements only.
  bool Lends(Lender& lender, const Tenancy& tenancy) const {
    const int64_t bytes = *At(tenancy.buffers[0]).bytes.constant();
    const bool replaced =
        tenancy.last == lender.first && bytes == lender.bytes && lender.replaced.count(tenancy.buffers.back()) != 0;
    if (bytes > lender.bytes || tenancy.first < 0 || (tenancy.last >= lender.first && !replaced)) return false;
    for (uint32_t buffer : tenancy.buffers) {
      if (ir::DTypeSize(At(buffer).type.dtype) > lender.element) return false;
    }
    auto after = lender.lent.upper_bound(tenancy.last);
    if (after != lender.lent.begin() && std::prev(after)->second >= tenancy.first) return false;
    lender.lent.insert({tenancy.first, tenancy.last});
    return true;
  }

  void Move(Tenancy& tenancy, uint32_t output) {
    for (uint32_t buffer : tenancy.buffers) {
      plan_.buffers[buffer].storage = Storage::kOutput, plan_.buffers[buffer].index = output;
    }
    tenancy.buffers.clear();
  }

  // --- The rest ---

  void PlaceArena() {
    EraseEmpty();
    std::vector<schedule::Lifetime> lifetimes;
    for (const Tenancy& t : tenancies_) lifetimes.push_back({At(t.buffers[0]).bytes, t.first, t.last});
    const schedule::Arena arena = schedule::PlanMemory(lifetimes);
    for (size_t t = 0; t < tenancies_.size(); ++t) {
      for (uint32_t buffer : tenancies_[t].buffers) plan_.buffers[buffer].offset = arena.offsets[t];
    }
    plan_.arena_bytes = arena.bytes;
  }

  artifact::Plan& plan_;
  const BufferLives& lives_;
  const std::vector<InPlaceStep>& in_place_;
  std::vector<Tenancy> tenancies_;
  std::map<uint32_t, size_t> tenancy_of_;
};

}  // namespace

void AssignMemory(artifact::Plan& plan, const BufferLives& lives, const std::vector<InPlaceStep>& in_place, bool lend) {
  Assignment(plan, lives, in_place).Run(lend);
}

}  // namespace preheat
