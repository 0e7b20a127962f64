#include "compiler/passes/activations.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "compiler/rewrite/pattern.h"

namespace preheat::passes {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of patterns
using ir::Op;
using ir::Value;

Pattern Times(Pattern a, Pattern b) { return EitherWay(Op::kMul, std::move(a), std::move(b)); }
Pattern Plus(Pattern a, Pattern b) { return EitherWay(Op::kAdd, std::move(a), std::move(b)); }

// 0.5 * x * (1 + f), in each grouping.
Pattern HalfTimesOnePlus(Pattern f) {
  Pattern one_plus = Plus(std::move(f), FillOf(1));
  Pattern half = FillOf(0.5);
  return OneOf({Times(Times(x, half), one_plus), Times(x, Times(one_plus, half)), Times(Times(x, one_plus), half)});
}

Pattern Gelu() {
  Pattern scaled = OneOf({Times(x, FillNear(M_SQRT1_2)), Is(Op::kDiv, {x, FillNear(M_SQRT2)})});
  return HalfTimesOnePlus(Is(Op::kErf, {scaled}));
}

Pattern GeluTanh() {
  Pattern square = Times(x, x);
  Pattern cube = OneOf({Times(square, x), Is(Op::kPow, {x, FillOf(3)})});
  Pattern inner = Plus(x, Times(cube, FillNear(0.044715)));
  return HalfTimesOnePlus(Is(Op::kTanh, {Times(inner, FillNear(std::sqrt(2 / M_PI)))}));
}

Pattern Sigmoid() {
  Pattern one_plus = Plus(Is(Op::kExp, {Is(Op::kNeg, {x})}), FillOf(1));
  return OneOf({Is(Op::kReciprocal, {one_plus}), Is(Op::kDiv, {FillOf(1), one_plus})});
}

Pattern Silu() {
  Pattern one_plus = Plus(Is(Op::kExp, {Is(Op::kNeg, {x})}), FillOf(1));
  return OneOf({Times(x, Sigmoid()), Is(Op::kDiv, {x, one_plus})});
}

struct Named {
  const char* name;
  Pattern pattern;
};

const std::vector<Named>& Known() {
  static const auto* const known = new std::vector<Named>{
      {"relu", EitherWay(Op::kMax, x, FillOf(0))},
      {"tanh", Is(Op::kTanh, {x})},
      {"sigmoid", Sigmoid()},
      {"silu", Silu()},
      {"gelu", Gelu()},
      {"gelu_tanh", GeluTanh()},
  };
  return *known;
}

// Nodes that x reaches, nearest first; no activation has more.
std::vector<const ir::Node*> Reached(Value from, const Users& users) {
  constexpr size_t kMost = 16;
  std::vector<const ir::Node*> nodes;
  std::vector<Value> frontier = {from};
  for (size_t i = 0; i < frontier.size() && nodes.size() < kMost; ++i) {
    for (const ir::Node* user : users.Of(frontier[i])) {
      if (!ir::IsPointwise(user->op()) || std::find(nodes.begin(), nodes.end(), user) != nodes.end()) continue;
      nodes.push_back(user);
      frontier.push_back(user->result());
    }
  }
  return nodes;
}

// Only nodes of the match use x and what lies between x and the root.
bool Closed(Value x, const Match& match, const Users& users) {
  std::set<const ir::Node*> inside(match.nodes.begin(), match.nodes.end());
  auto private_to_match = [&](Value v) {
    const std::vector<const ir::Node*>& of = users.Of(v);
    return !users.IsOutput(v) && std::all_of(of.begin(), of.end(), [&](const ir::Node* n) { return inside.count(n); });
  };
  return private_to_match(x) && std::all_of(inside.begin(), inside.end(), [&](const ir::Node* n) {
           return n == match.root.node || private_to_match(n->result());
         });
}

}  // namespace

std::optional<Activation> FindActivation(Value argument, const Users& users) {
  for (const ir::Node* root : Reached(argument, users)) {
    for (const Named& known : Known()) {
      Match match;
      match.root = root->result();
      match.captured[x.index] = argument;
      if (!known.pattern(match.root, match) || !Closed(argument, match, users)) continue;
      return Activation{known.name, match.root, std::move(match.nodes)};
    }
  }
  return std::nullopt;
}

}  // namespace preheat::passes
