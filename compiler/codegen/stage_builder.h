#ifndef PREHEAT_COMPILER_CODEGEN_STAGE_BUILDER_H_
#define PREHEAT_COMPILER_CODEGEN_STAGE_BUILDER_H_

#include <functional>
#include <string>
#include <vector>

#include "compiler/codegen/loop_nest.h"
#include "compiler/codegen/scalar_builder.h"

namespace preheat::codegen {

// Makes the loops of a stage for a body that is written element by element. The base of the two lowerings
// (lower_region.h); not for use elsewhere.
class StageBuilder : protected ScalarBuilder {
 public:
  StageBuilder(const schedule::Region& region, const std::vector<Target>& targets, const StridesFn& strides_of,
               const ir::Ranges& sizes, const Choices& choices, bool copy);

 protected:
  // Writes one element of a stage into the piece: `vars` are its place, in loops of `sizes`.
  using Body = std::function<void(const schedule::Index& vars, const std::vector<ir::Expr>& sizes, Piece& piece)>;

  // Loops "<prefix>0", "<prefix>1", ... over what is not 1 of the sizes.
  std::vector<Loop> MakeLoops(const std::string& prefix, const std::vector<ir::Expr>& sizes, int depth);
  // Evaluates the body over loops, splits loops whose indices divide them, joins those that all indices run through in
  // step, and cuts the last one where conditions change.
  Stage BuildStage(std::vector<Loop> loops, const Body& body);

  schedule::Index Simplified(const ir::Expr& position, const std::vector<ir::Expr>& shape) const;
  // How many are not 1.
  static size_t Dims(const std::vector<ir::Expr>& shape);

  // The kernel, or what went wrong; its symbols are noted. Nothing may follow.
  absl::StatusOr<Kernel> TakeKernel();

  // Elements of a tile over `size` where there may be `most`: the tiles are equally long but for what 16, a vector of
  // any kind, leaves over.
  int TileFor(int most, const ir::Expr& size) const;

  const schedule::Region& region_;
  const std::vector<Target>& targets_;
  const Choices choices_;

 private:
  struct Trial {
    std::vector<ir::Expr> exprs;       // every index and condition
    std::vector<ir::Expr> conditions;  // conditions only
  };
  Trial Try(const LoopNest& nest, const std::vector<ir::Expr>& sizes, const Body& body);
  void RunBody(const LoopNest& nest, const std::vector<ir::Expr>& sizes, const Body& body, Piece& piece);
  Stage Finish(const LoopNest& nest, const std::vector<ir::Expr>& sizes, const Body& body, const Trial& trial);
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_STAGE_BUILDER_H_
