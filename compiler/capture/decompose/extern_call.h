#ifndef PREHEAT_COMPILER_CAPTURE_DECOMPOSE_EXTERN_CALL_H_
#define PREHEAT_COMPILER_CAPTURE_DECOMPOSE_EXTERN_CALL_H_

#include <string>
#include <vector>

#include "compiler/capture/aten_program.h"

namespace preheat::decompose {

// An operator call that the extern handler makes, as compact JSON:
//
//   {"op":"aten.sort.stable","args":[{"n":"self","v":{"t":0}},{"n":"stable","v":true,"k":1}],"list":false,"none":[]}
//
// args stand in the schema's order; "k":1 marks a keyword argument; absent ones have their default. A value is
//
//   null, true, false, "text"     None, bool, str
//   7, {"e":"2*d0 + 1"}           an integer; an integer expression over the plan's symbols
//   {"f":"0.10000000000000001"}   a float, as text: "inf", "-inf" and "nan" too
//   {"c":["1","0.5"]}             a complex number
//   {"t":2}                       the tensor operand of that number
//   {"ts":[0,null,1]}             a list of tensors, None among them
//   {"is":[1,{"e":"d0"}]}         a list of integers
//   {"fs":["0.5"]}, {"bs":[true]} lists of floats, of bools
//   {"dtype":"f32"}, {"layout":"strided"}, {"memory_format":"channels_last"}, {"device":"cpu"}
//
// Operands are numbered in the order in which they first occur in args, each value once. "list": the operator
// returns one list of tensors. "none": the numbers of results that the program does not take; the step's
// results are the others, in order.
struct ExternCall {
  std::string json;
  std::vector<int> operands;  // values of the program, by operand number
};
ExternCall WriteExternCall(const capture::AtenNode& node);

}  // namespace preheat::decompose

#endif  // PREHEAT_COMPILER_CAPTURE_DECOMPOSE_EXTERN_CALL_H_
