#ifndef PREHEAT_COMPILER_CAPTURE_FUNCTIONALIZE_H_
#define PREHEAT_COMPILER_CAPTURE_FUNCTIONALIZE_H_

#include "absl/status/status.h"
#include "compiler/capture/aten_program.h"

namespace preheat::capture {

// Turns writes into values: afterwards no node of the program changes a tensor.
//
//   x.relu_()              every later reader of x, and of any view of it, reads the new value
//   x[1:].copy_(y)         the base becomes slice_scatter(x, y), other views are taken from it anew
//   batch_norm in training becomes _native_batch_norm_legit_functional; its statistics are new values
//   dropout in eval        vanishes, as do detach, alias and to() of the dtype a tensor has
//   add(a, b, out=c)       c becomes add(a, b)
//
// Inputs that were written get an output of kind kMutatesInput, before the program's own outputs; outputs
// that share memory with an input or an earlier output say so. Types stay what the source declared.
//
// UNIMPLEMENTED, kind "unsupported_mutation", names the operator: writes through views without an inverse
// (expand that repeats, unfold), into constants, or where it is not known whether memory is shared.
// The program is unspecified then. An already functional program changes only in what vanishes.
absl::Status Functionalize(AtenProgram& program);

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_FUNCTIONALIZE_H_
