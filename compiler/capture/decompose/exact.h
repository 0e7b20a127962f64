#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_EXACT_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_EXACT_H_

#include "compiler/capture/aten_program.h"

namespace preheat::decompose {

// Why the nodes of IsEagersOwn are left to torch.
inline constexpr char kKeepsEagersBits[] = "of integers alone: eager's last bit is kept";

// Whether results are compared bit for bit: the program has tensors for inputs, and none holds floats. Integers are
// exact, and who computes with them, even by way of floats, expects what eager gives and no other rounding of it.
bool IsExact(const capture::AtenProgram& program);

// Whether the node's results, in such a program, depend in the last bit on how eager goes about it: sums of floats in
// its order, functions that it does not round correctly.
bool IsEagersOwn(const capture::AtenProgram& program, const capture::AtenNode& node);

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_EXACT_H_
