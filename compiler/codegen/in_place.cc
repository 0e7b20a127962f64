#include "compiler/codegen/in_place.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

namespace preheat::codegen {
namespace {

using ir::Expr;

// Where an output is stored: one element of `order`, at one index.
struct Write {
  size_t item;
  const Stage* stage;  // null: outside of stages
  Expr index;
};

// Of a stage's stores and of the kernel's own; nothing where an output is written in several ways.
class Writes {
 public:
  explicit Writes(const Kernel& kernel) {
    for (size_t i = 0; i < kernel.order.size(); ++i) {
      const Item& item = kernel.order[i];
      if (item.store) Note(*item.store, i, nullptr);
      if (!item.stage) continue;
      for (const Piece& piece : item.stage->pieces) {
        for (const Store& store : piece.stores) Note(store, i, &*item.stage);
      }
    }
    for (const ColumnArray& columns : kernel.column_arrays) several_.push_back(columns.buffer);
  }

  std::optional<Write> Of(int buffer) const {
    auto found = writes_.find(buffer);
    if (found == writes_.end() || std::count(several_.begin(), several_.end(), buffer) != 0) return std::nullopt;
    return found->second;
  }

 private:
  void Note(const Store& store, size_t item, const Stage* stage) {
    auto [at, fresh] = writes_.try_emplace(store.buffer, Write{item, stage, store.index});
    if (!fresh && (at->second.item != item || at->second.index != store.index)) several_.push_back(store.buffer);
  }

  std::map<int, Write> writes_;  // by buffer
  std::vector<int> several_;
};

// The index under the names that the loops of another stage have; nothing where the two go through different loops.
std::optional<Expr> InLoopsOf(const Stage* to, const Stage* from, const Expr& index) {
  if (to == from) return index;
  if (to == nullptr || from == nullptr || to->loops.size() != from->loops.size()) return std::nullopt;
  std::map<std::string, Expr> names;
  for (size_t i = 0; i < to->loops.size(); ++i) {
    if (to->loops[i].size != from->loops[i].size) return std::nullopt;
    names[from->loops[i].var] = Expr::Symbol(to->loops[i].var);
  }
  return index.Substitute(names);
}

struct Load {
  size_t item;
  const Stage* stage;
  const Stmt* stmt;
};

class Finder {
 public:
  explicit Finder(const Kernel& kernel) : kernel_(kernel), writes_(kernel), loads_(kernel.buffers.size()) {
    for (size_t i = 0; i < kernel.order.size(); ++i) {
      const Item& item = kernel.order[i];
      if (item.stmt >= 0) Note(item.stmt, i, nullptr);
      if (!item.stage) continue;
      for (const Piece& piece : item.stage->pieces) {
        for (int s : piece.body) Note(s, i, &*item.stage);
      }
    }
  }

  std::vector<InPlace> Run() const {
    std::vector<InPlace> pairs;
    const int count = static_cast<int>(kernel_.buffers.size());
    for (int written = 0; written < count; ++written) {
      const std::optional<Write> write = writes_.Of(written);
      for (int read = 0; write && read < count; ++read) {
        if (Fits(*write, written, read)) pairs.push_back({written, read});
      }
    }
    return pairs;
  }

 private:
  void Note(int s, size_t item, const Stage* stage) {
    const Stmt& stmt = kernel_.stmts[s];
    if (stmt.kind == Stmt::Kind::kLoad) loads_[stmt.buffer].push_back({item, stage, &stmt});
  }

  bool Fits(const Write& write, int written, int read) const {
    const KernelBuffer &to = kernel_.buffers[written], &from = kernel_.buffers[read];
    if (from.written || !to.written || from.dtype != to.dtype) return false;
    return !loads_[read].empty() && std::all_of(loads_[read].begin(), loads_[read].end(), [&](const Load& load) {
      if (load.stmt->predicate >= 0 || load.item > write.item) return false;
      const std::optional<Expr> index = InLoopsOf(write.stage, load.stage, load.stmt->index);
      return index && *index == write.index;
    });
  }

  const Kernel& kernel_;
  const Writes writes_;
  std::vector<std::vector<Load>> loads_;  // by buffer
};

}  // namespace

std::vector<InPlace> InPlacePairs(const Kernel& kernel) { return Finder(kernel).Run(); }

}  // namespace preheat::codegen
