#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_TRUTHS_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_TRUTHS_H_

#include "compiler/capture/aten_program.h"
#include "compiler/capture/decompose/op_context.h"

namespace preheat::decompose {

// Whether every argument of the node is a tensor of bools or a copy of one as numbers, a plain order "n" aside.
bool TakesTruths(const capture::AtenProgram& program, const capture::AtenNode& node);

// Lowerings for such nodes, where results are compared bit for bit; they go before all others.
OpTable TruthOps();

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_TRUTHS_H_
