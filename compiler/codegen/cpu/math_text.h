#ifndef PREHEAT_COMPILER_CODEGEN_CPU_MATH_TEXT_H_
#define PREHEAT_COMPILER_CODEGEN_CPU_MATH_TEXT_H_

#include <string>

namespace preheat {

// The texts that MathSource takes functions from. A definition starts at a line that begins with "FN " (static inline,
// always inlined) or "static const ", and ends before the next line that is empty or starts another one; lines of
// comment between definitions are for readers here and are not emitted. Names that callers may ask for start with
// "ph_", those of helpers with "phx_"; a definition needs those whose names it holds.
std::string FloatCommonMathText();  // one template for f32 and f64
std::string F32MathText();
std::string F64MathText();
std::string ConversionMathText();
std::string IntegerMathText();

}  // namespace preheat

#endif  // PREHEAT_COMPILER_CODEGEN_CPU_MATH_TEXT_H_
